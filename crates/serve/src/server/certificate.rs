//! The certificate of the server, and the authentication of its clients.
//!
//! Everything here can be replaced at any time: a handshake uses the current value.

mod clients;
mod development;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

pub use self::clients::{Authorities, Tokens};
pub use self::development::Development;
use super::names::CertificateContents;
use super::reload::{self, Files, Follower, HotError};
use crate::server::metrics::Metrics;

/// Why a certificate, a bundle of authorities or a token cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The PEM text is broken.
    #[error("read the {0} from PEM")]
    Pem(&'static str, #[source] rustls_pki_types::pem::Error),
    /// There is no certificate in the text.
    #[error("there is no certificate in it")]
    Empty,
    /// Not X.509.
    #[error("decode the certificate: {0}")]
    Decode(String),
    /// The key cannot be used.
    #[error("use the private key")]
    Key(#[source] rustls::Error),
    /// The key belongs to another certificate.
    #[error("the private key belongs to another certificate")]
    OtherKey,
    /// The certificate has expired.
    #[error("the certificate expired {} s ago", .0.as_secs())]
    Expired(Duration),
    /// The certificate is not valid yet.
    #[error("the certificate is not valid for another {} s", .0.as_secs())]
    NotYetValid(Duration),
    /// Its extended key usage does not have `serverAuth`.
    #[error("the certificate is not for servers: its extended key usage must include serverAuth")]
    NotForServers,
    /// It has no subject alternative name, so no client accepts it.
    #[error(
        "the certificate has no DNS name and no address in its subjectAltName; the common name does not count"
    )]
    NoNames,
    /// It lacks a name by which the API server calls the webhook.
    #[error("the certificate is for {}, not for {missing}, which the API server calls", .has.join(", "))]
    NameMissing {
        /// The name that it must have.
        missing: String,
        /// Those that it has.
        has: Vec<String>,
    },
    /// It lacks a name of the one in use.
    #[error(
        "the certificate is not for {}, which the one in use is for; if that is intended, restart the pods, \
         which then use the new one",
        .0.join(", ")
    )]
    NameLost(Vec<String>),
    /// A client authority cannot be used.
    #[error("use the client authorities")]
    Authorities(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A token file without a token.
    #[error("there is no token in it")]
    NoToken,
    /// A certificate could not be made.
    #[error("make a certificate")]
    Make(#[source] rcgen::Error),
}

impl CertificateError {
    /// Returns the `cause` label of a rejected certificate in `jobgate_certificate_errors_total`.
    #[must_use]
    pub(crate) fn cause(&self) -> &'static str {
        match self {
            Self::OtherKey => "other-key",
            Self::Expired(_) => "expired",
            Self::NotYetValid(_) => "not-yet-valid",
            Self::NotForServers => "not-for-servers",
            Self::NoNames => "no-names",
            Self::NameMissing { .. } => "name-missing",
            Self::NameLost(_) => "name-lost",
            _ => "unreadable",
        }
    }
}

/// The only crypto provider in the program. It is passed to rustls explicitly, so nothing depends on a
/// process-wide default.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The served certificate; it may be replaced at any time, and may be missing at first.
#[derive(Debug)]
pub struct Identity {
    current: ArcSwapOption<ServedCertificate>,
    metrics: Metrics,
    /// Names that a certificate must cover.
    required: Vec<String>,
    /// Seconds by which the API server's clock is ahead of this machine's.
    ahead: AtomicI64,
}

#[derive(Debug)]
struct ServedCertificate {
    key: Arc<CertifiedKey>,
    /// The server's own certificate, the first of the chain.
    leaf: CertificateContents,
    /// When the whole chain is valid.
    not_before: SystemTime,
    /// When the first certificate of the chain expires.
    not_after: SystemTime,
}

impl ServedCertificate {
    fn holds_at(&self, time: SystemTime) -> bool {
        self.not_before <= time && time < self.not_after
    }
}

impl Identity {
    /// Returns an identity without a certificate: handshakes fail, and the server is not ready.
    #[must_use]
    pub fn empty(metrics: &Metrics) -> Self {
        Self {
            current: ArcSwapOption::empty(),
            metrics: metrics.clone(),
            required: Vec::new(),
            ahead: AtomicI64::new(0),
        }
    }

    /// Accepts only certificates for all of these names: DNS names or addresses, as the API server calls the
    /// webhook.
    #[must_use]
    pub fn requiring(mut self, names: Vec<String>) -> Self {
        self.required = names;
        self
    }

    /// Reads a chain and its key from two PEM files, and follows them for as long as the [`Follower`] lives.
    /// A rejected pair is tried again each time: a certificate that is not valid yet is served once it is.
    ///
    /// # Errors
    /// If the files cannot be used now, by the rules of [`replace`](Self::replace). Later errors leave the
    /// last good pair in place.
    pub async fn follow(
        self,
        certificate: PathBuf,
        key: PathBuf,
        every: Duration,
    ) -> Result<(Arc<Self>, Follower), HotError> {
        let identity = Arc::new(self);
        let target = identity.clone();
        let files = Files { every, retry: true, ..Files::new("certificate", [certificate, key]) };
        let take = move |contents: &[Vec<u8>]| match contents {
            [certificate, key] => Ok(target.replace(certificate, key)?),
            _ => Err("two files are read".into()),
        };
        let follower = reload::follow(files, &identity.metrics, take).await?;
        Ok((identity, follower))
    }

    /// Serves another certificate from now on. Open connections keep theirs.
    ///
    /// A certificate that no API server would accept must not replace one that it accepts. So a certificate
    /// is rejected if it is not for servers, has no name, lacks a [required](Self::requiring) name, or has
    /// expired; and, as long as the one in use is valid, if it is not valid yet or lacks a name of the one in
    /// use. An intended change of names requires a restart, which begins without one in use.
    ///
    /// If the one in use is not valid, a certificate that is not valid yet is served, and the server is not
    /// [ready](Self::ready) until it is: an API server whose clock is ahead accepts it already, and a process
    /// that exits would be restarted later and later. There is no tolerance for clock differences: issuers
    /// backdate certificates (Jobgate itself by an hour), and an early one is tried again every few seconds.
    ///
    /// # Errors
    /// If the chain or the key cannot be read, do not belong together, or are rejected for one of these
    /// reasons. Then nothing changes, and the rejection is counted.
    pub fn replace(&self, certificate: &[u8], key: &[u8]) -> Result<(), CertificateError> {
        let served = self
            .examine(certificate, key)
            .inspect_err(|error| self.metrics.certificate_error(error.cause()))?;
        self.metrics.certificate_not_after(served.not_after);
        self.current.store(Some(Arc::new(served)));
        Ok(())
    }

    /// Reads a pair and decides whether it may be served. Checks that depend on time come last, so that what
    /// is logged stays true.
    fn examine(&self, certificate: &[u8], key: &[u8]) -> Result<ServedCertificate, CertificateError> {
        let now = self.now();
        let served = read_pair(certificate, key)?;
        let leaf = &served.leaf;
        if !leaf.for_servers {
            return Err(CertificateError::NotForServers);
        }
        if leaf.hosts().is_empty() {
            return Err(CertificateError::NoNames);
        }
        if let Some(missing) = self.required.iter().find(|name| !leaf.is_for(name)) {
            return Err(CertificateError::NameMissing {
                missing: missing.clone(),
                has: leaf.hosts().to_vec(),
            });
        }
        if let Ok(age) = now.duration_since(served.not_after) {
            return Err(CertificateError::Expired(age));
        }
        let early = served.not_before.duration_since(now).ok().filter(|wait| !wait.is_zero());
        match self.current.load().as_ref().filter(|current| current.holds_at(now)) {
            Some(current) => {
                let lost: Vec<String> =
                    current.leaf.hosts().iter().filter(|name| !leaf.is_for(name)).cloned().collect();
                match early {
                    _ if !lost.is_empty() => Err(CertificateError::NameLost(lost)),
                    Some(wait) => Err(CertificateError::NotYetValid(wait)),
                    None => Ok(served),
                }
            }
            None => {
                if let Some(wait) = early {
                    tracing::warn!(
                        seconds = wait.as_secs(),
                        "the certificate is not valid yet; not ready until it is"
                    );
                }
                Ok(served)
            }
        }
    }

    /// Sets the clock to use from now on, this many seconds ahead of the machine's: that of the API server,
    /// which verifies the certificate.
    pub(crate) fn set_clock(&self, seconds_ahead: i64) {
        self.ahead.store(seconds_ahead, Ordering::Relaxed);
    }

    fn now(&self) -> SystemTime {
        let ahead = self.ahead.load(Ordering::Relaxed);
        let by = Duration::from_secs(ahead.unsigned_abs());
        let now = SystemTime::now();
        let there = if ahead < 0 { now.checked_sub(by) } else { now.checked_add(by) };
        there.unwrap_or(now)
    }

    /// Returns when the first certificate of the chain expires, if there is a certificate.
    #[must_use]
    pub fn not_after(&self) -> Option<SystemTime> {
        self.current.load().as_ref().map(|served| served.not_after)
    }

    /// Returns whether the current certificate is valid, and if not, why. A rejected new certificate does not
    /// matter.
    ///
    /// # Errors
    /// If there is no certificate, or it has expired or is not valid yet.
    pub fn ready(&self) -> Result<(), &'static str> {
        let now = self.now();
        match self.current.load().as_ref() {
            None => Err("not loaded"),
            Some(served) if served.not_after <= now => Err("expired"),
            Some(served) if now < served.not_before => Err("not valid yet"),
            Some(_) => Ok(()),
        }
    }
}

impl ResolvesServerCert for Identity {
    /// Serves the same certificate for any name: the API server checks the name.
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.load().as_ref().map(|served| served.key.clone())
    }
}

fn read_pair(certificate: &[u8], key: &[u8]) -> Result<ServedCertificate, CertificateError> {
    let chain = read_chain(certificate)?;
    let key =
        PrivateKeyDer::from_pem_slice(key).map_err(|error| CertificateError::Pem("private key", error))?;
    let claims = chain
        .iter()
        .map(|each| CertificateContents::from_der(each).map_err(CertificateError::Decode))
        .collect::<Result<Vec<_>, _>>()?;
    let not_before = claims.iter().map(|claims| claims.not_before).max().ok_or(CertificateError::Empty)?;
    let not_after = claims.iter().map(|claims| claims.not_after).min().ok_or(CertificateError::Empty)?;
    let leaf = claims.into_iter().next().ok_or(CertificateError::Empty)?;
    // This also checks that the key belongs to the certificate.
    let key = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => CertificateError::OtherKey,
        error => CertificateError::Key(error),
    })?;
    Ok(ServedCertificate { key: Arc::new(key), leaf, not_before, not_after })
}

/// Returns whether a server can serve the chain with the key, both PEM. Dates are not checked.
///
/// # Errors
/// If one of the two cannot be read, or they do not belong together.
pub(crate) fn check_pair(certificate: &[u8], key: &[u8]) -> Result<(), CertificateError> {
    read_pair(certificate, key).map(drop)
}

fn read_chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let chain = chain.map_err(|error| CertificateError::Pem("certificate", error))?;
    if chain.is_empty() { Err(CertificateError::Empty) } else { Ok(chain) }
}

/// Returns the TLS settings of the server: TLS 1.2 and 1.3, HTTP/2 only if `http2`.
///
/// Sessions are not resumed: the API server never does that, and a resumed one would bypass the check of the
/// client certificate.
pub(super) fn tls(
    identity: Arc<Identity>,
    clients: Option<Arc<Authorities>>,
    http2: bool,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = match clients {
        Some(authorities) => builder.with_client_cert_verifier(authorities),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(identity);
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.alpn_protocols =
        if http2 { vec![b"h2".to_vec(), b"http/1.1".to_vec()] } else { vec![b"http/1.1".to_vec()] };
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity::empty(&Metrics::new())
    }

    #[test]
    fn a_pair_is_taken_and_its_end_known() {
        let made = Development::generate().unwrap();
        let identity = identity();
        assert_eq!(identity.ready(), Err("not loaded"));
        identity.replace(made.certificate.as_bytes(), made.key.as_bytes()).unwrap();
        assert_eq!(identity.ready(), Ok(()));
        let left = identity.not_after().unwrap().duration_since(SystemTime::now()).unwrap();
        assert!(
            left > Duration::from_secs(29 * 86_400) && left < Duration::from_secs(31 * 86_400),
            "{left:?}"
        );
    }

    #[test]
    fn what_cannot_be_used_changes_nothing() {
        let (made, other) = (Development::generate().unwrap(), Development::generate().unwrap());
        let identity = identity();
        identity.replace(made.certificate.as_bytes(), made.key.as_bytes()).unwrap();
        let before = identity.not_after();
        let torn = &made.certificate[..made.certificate.len() / 2];
        for (certificate, key) in [
            ("", made.key.as_str()),
            ("garbage", &made.key),
            (torn, &made.key),
            (&made.certificate, ""),
            (&made.certificate, "garbage"),
            (&made.certificate, &other.key),
            (&made.key, &made.certificate),
        ] {
            identity.replace(certificate.as_bytes(), key.as_bytes()).unwrap_err();
        }
        assert_eq!(identity.not_after(), before);
    }

    #[test]
    fn an_expired_certificate_is_not_taken() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        let certificate = params.self_signed(&key).unwrap();
        let error =
            identity().replace(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap_err();
        assert!(matches!(error, CertificateError::Expired(_)), "{error}");
    }

    /// A certificate that has signed itself, and its key: an ordinary one for the names, changed.
    fn pair(names: &[&str], change: impl FnOnce(&mut rcgen::CertificateParams)) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = rcgen::CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        change(&mut params);
        let key = rcgen::KeyPair::generate().unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    fn replace(identity: &Identity, (certificate, key): &(String, String)) -> Result<(), CertificateError> {
        identity.replace(certificate.as_bytes(), key.as_bytes())
    }

    const HOUR: Duration = Duration::from_secs(3600);
    const SERVICE: &str = "jobgate.jobgate.svc";

    fn early(names: &[&str]) -> (String, String) {
        pair(names, |params| params.not_before = (SystemTime::now() + HOUR).into())
    }

    #[test]
    fn what_no_api_server_accepts_does_not_replace_what_it_accepts() {
        use rcgen::ExtendedKeyUsagePurpose::ClientAuth;
        let metrics = Metrics::new();
        let identity = Identity::empty(&metrics).requiring(vec![SERVICE.to_owned()]);
        let good = pair(&[SERVICE, "jobgate.jobgate", "10.0.0.1"], |params| {
            params.not_after = (SystemTime::now() + 1000 * HOUR).into();
        });
        replace(&identity, &good).unwrap();
        let before = identity.not_after();
        let cases = [
            ("not-yet-valid", early(&[SERVICE, "jobgate.jobgate", "10.0.0.1"])),
            (
                "not-for-servers",
                pair(&[SERVICE, "jobgate.jobgate", "10.0.0.1"], |params| {
                    params.extended_key_usages = vec![ClientAuth];
                }),
            ),
            (
                "no-names",
                pair(&[], |params| params.distinguished_name.push(rcgen::DnType::CommonName, SERVICE)),
            ),
            ("name-missing", pair(&["jobgate.other.svc"], |_| {})),
            ("name-lost", pair(&[SERVICE, "10.0.0.1"], |_| {})),
            ("name-lost", pair(&[SERVICE, "jobgate.jobgate", "10.0.0.2"], |_| {})),
            ("expired", pair(&[SERVICE], |params| params.not_after = (SystemTime::now() - HOUR).into())),
        ];
        for (cause, refused) in &cases {
            let error = replace(&identity, refused).unwrap_err();
            assert_eq!(error.cause(), *cause, "{error}");
            assert_eq!(
                (identity.not_after(), identity.ready()),
                (before, Ok(())),
                "{cause}: the last good one stays"
            );
        }
        let text = metrics.text();
        assert!(text.contains(r#"jobgate_certificate_errors_total{cause="name-lost"} 2"#), "{text}");
        assert!(text.contains(r#"jobgate_certificate_errors_total{cause="not-for-servers"} 1"#), "{text}");
        replace(&identity, &pair(&["*.jobgate.svc", SERVICE, "JOBGATE.jobgate", "10.0.0.1", "more"], |_| {}))
            .unwrap();
        replace(&identity, &pair(&["*.jobgate.svc", "jobgate.jobgate", "10.0.0.1", "more"], |_| {}))
            .expect("a wildcard covers a name");
        replace(&identity, &pair(&[SERVICE, "jobgate.jobgate", "10.0.0.1", "more"], |_| {}))
            .expect_err("and a name does not cover a wildcard");
    }

    #[test]
    fn the_message_says_what_is_wrong_and_what_to_do() {
        let identity = identity().requiring(vec!["a.example".to_owned()]);
        let error = replace(&identity, &pair(&["b.example", "10.0.0.1"], |_| {})).unwrap_err().to_string();
        assert_eq!(
            error,
            "the certificate is for b.example, 10.0.0.1, not for a.example, which the API server calls"
        );
        replace(&identity, &pair(&["a.example", "b.example"], |_| {})).unwrap();
        let error = replace(&identity, &pair(&["a.example"], |_| {})).unwrap_err().to_string();
        assert!(error.starts_with("the certificate is not for b.example, which the one in use is for; if that is intended, restart "), "{error}");
    }

    #[test]
    fn the_first_certificate_must_be_fit_and_may_be_early() {
        let fresh = || identity().requiring(vec![SERVICE.to_owned()]);
        for unfit in [
            pair(&["localhost"], |_| {}),
            pair(&[SERVICE], |params| {
                params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
            }),
        ] {
            let identity = fresh();
            replace(&identity, &unfit).unwrap_err();
            assert_eq!(identity.ready(), Err("not loaded"));
        }
        let identity = fresh();
        replace(&identity, &early(&[SERVICE])).unwrap();
        assert_eq!(identity.ready(), Err("not valid yet"), "nobody is sent to it");
        identity.set_clock(7200);
        assert_eq!(identity.ready(), Ok(()));
    }

    #[test]
    fn what_does_not_hold_keeps_nothing_out() {
        let identity = identity();
        replace(&identity, &pair(&["a", "b"], |params| params.not_after = (SystemTime::now() + HOUR).into()))
            .unwrap();
        let other = pair(&["a"], |_| {});
        replace(&identity, &other).unwrap_err();
        identity.set_clock(7200);
        assert_eq!(identity.ready(), Err("expired"));
        replace(&identity, &other).unwrap();
        assert_eq!(identity.ready(), Ok(()));
    }

    #[tokio::test]
    async fn what_was_refused_is_served_once_it_is_valid() {
        let dir = tempfile::tempdir().unwrap();
        let [certificate, key] = ["tls.crt", "tls.key"].map(|name| dir.path().join(name));
        // One file after the other: in between, the files belong to two pairs.
        let write = |pair: &(String, String)| {
            std::fs::write(&certificate, &pair.0).unwrap();
            std::fs::write(&key, &pair.1).unwrap();
        };
        let (first, next) = (pair(&["a"], |_| {}), early(&["a"]));
        write(&first);
        let metrics = Metrics::new();
        let (identity, _follower) = Identity::empty(&metrics)
            .follow(certificate.clone(), key.clone(), Duration::from_millis(5))
            .await
            .unwrap();
        let served = |pair: &(String, String)| {
            let current = identity.current.load();
            let der = CertificateDer::from_pem_slice(pair.0.as_bytes()).unwrap();
            current.as_ref().is_some_and(|served| served.key.cert[0] == der)
        };
        assert!(served(&first));
        write(&next);
        let until = async |holds: &dyn Fn() -> bool| {
            for _ in 0..2000 {
                if holds() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            panic!("waited ten seconds in vain\n{}", metrics.text());
        };
        let failures = |text: &str| {
            text.lines()
                .find(|line| {
                    line.starts_with(r#"jobgate_reloads_total{file="certificate",result="failure"}"#)
                })
                .map(str::to_owned)
        };
        // More than once: it is tried again, and neither taken nor reported again. The two are counted one
        // after the other.
        let again = |text: &str| {
            !text.contains(r#"cause="not-yet-valid"} 1"#) && text.contains(r#"cause="not-yet-valid""#)
        };
        until(&|| again(&metrics.text()) && failures(&metrics.text()).is_some()).await;
        let reported = failures(&metrics.text());
        assert!(reported.is_some() && served(&first));
        identity.set_clock(7200);
        until(&|| served(&next)).await;
        assert_eq!((failures(&metrics.text()), identity.ready()), (reported, Ok(())));
    }
}

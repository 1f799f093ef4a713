//! Who the server is, and who may call it.
//!
//! Everything here can be replaced while connections are being made: a handshake takes what is current at that moment.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::{ArcSwap, ArcSwapOption};
use http::HeaderValue;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use sha2::{Digest as _, Sha256};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::Metrics;
use super::hot::{self, Files, Follower, HotError};

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
    /// A key of a kind that cannot be used.
    #[error("use the private key")]
    Key(#[source] rustls::Error),
    /// The key is a good one, of another certificate.
    #[error("the private key belongs to another certificate")]
    OtherKey,
    /// The certificate is of no use any more.
    #[error("the certificate expired {} s ago", .0.as_secs())]
    Expired(Duration),
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

/// The only cryptography in the program. It is handed to rustls explicitly, so that nothing depends on a process-wide default.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The certificate that is served; it may be replaced at any time, and may be missing at first.
#[derive(Debug)]
pub struct Identity {
    current: ArcSwapOption<Served>,
    metrics: Metrics,
    /// Seconds by which the clock that counts is ahead of this machine's.
    ahead: AtomicI64,
}

#[derive(Debug)]
struct Served {
    key: Arc<CertifiedKey>,
    not_after: SystemTime,
}

impl Identity {
    /// Returns one that has no certificate yet: handshakes fail, and the server is not ready.
    #[must_use]
    pub fn empty(metrics: &Metrics) -> Self {
        Self { current: ArcSwapOption::empty(), metrics: metrics.clone(), ahead: AtomicI64::new(0) }
    }

    /// Reads a chain and its key from two PEM files, and follows them for as long as the [`Follower`] lives.
    ///
    /// # Errors
    /// If the files cannot be used as they are now. Later trouble leaves the last good pair in place.
    pub async fn from_files(certificate: PathBuf, key: PathBuf, every: Duration, metrics: &Metrics) -> Result<(Arc<Self>, Follower), HotError> {
        let identity = Arc::new(Self::empty(metrics));
        let target = identity.clone();
        let files = Files { every, ..Files::new("certificate", [certificate, key]) };
        let take = move |contents: &[Vec<u8>]| match contents {
            [certificate, key] => Ok(target.replace(certificate, key)?),
            _ => Err("two files are read".into()),
        };
        Ok((identity, hot::follow(files, metrics, take).await?))
    }

    /// Serves another certificate from now on. Open connections are not touched.
    ///
    /// # Errors
    /// If the chain or the key cannot be read, do not belong together, or the chain has expired. Then nothing changes.
    pub fn replace(&self, certificate: &[u8], key: &[u8]) -> Result<(), CertificateError> {
        let served = read_pair(certificate, key)?;
        let age = self.now().duration_since(served.not_after);
        if let Ok(age) = age {
            return Err(CertificateError::Expired(age));
        }
        self.metrics.certificate_not_after(served.not_after);
        self.current.store(Some(Arc::new(served)));
        Ok(())
    }

    /// Counts by another clock from now on, which is so many seconds ahead of this machine's: that of the API server, which judges the certificate.
    pub fn set_clock(&self, seconds_ahead: i64) {
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

    /// Tells whether a client can be served, and if not, why.
    ///
    /// # Errors
    /// If there is no certificate, or the one there is has expired by the wall clock.
    pub fn ready(&self) -> Result<(), &'static str> {
        match self.not_after() {
            None => Err("not loaded"),
            Some(time) if time <= self.now() => Err("expired"),
            Some(_) => Ok(()),
        }
    }
}

impl ResolvesServerCert for Identity {
    /// Serves the one certificate under any name: the API server's view of the name is checked by the API server.
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.load().as_ref().map(|served| served.key.clone())
    }
}

fn read_pair(certificate: &[u8], key: &[u8]) -> Result<Served, CertificateError> {
    let chain = read_chain(certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| CertificateError::Pem("private key", error))?;
    let not_after = chain.iter().map(not_after).collect::<Result<Vec<_>, _>>()?.into_iter().min().ok_or(CertificateError::Empty)?;
    // This also checks that the key belongs to the certificate.
    let key = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => CertificateError::OtherKey,
        error => CertificateError::Key(error),
    })?;
    Ok(Served { key: Arc::new(key), not_after })
}

/// Tells whether a server can serve the chain with the key, both PEM. Dates are not looked at.
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

fn not_after(certificate: &CertificateDer<'_>) -> Result<SystemTime, CertificateError> {
    let (_, certificate) = X509Certificate::from_der(certificate).map_err(|error| CertificateError::Decode(error.to_string()))?;
    let seconds = certificate.validity().not_after.timestamp();
    Ok(UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// The authorities whose client certificates are let in; they may be replaced at any time.
#[derive(Debug)]
pub struct Authorities {
    current: ArcSwapOption<Verifier>,
    provider: Arc<CryptoProvider>,
}

/// A sized home for the trait object, which `ArcSwap` needs.
#[derive(Debug)]
struct Verifier(Arc<dyn ClientCertVerifier>);

impl Default for Authorities {
    fn default() -> Self {
        Self { current: ArcSwapOption::empty(), provider: provider() }
    }
}

impl Authorities {
    /// Reads authorities from a PEM file, and follows it for as long as the [`Follower`] lives.
    ///
    /// # Errors
    /// If the file cannot be used as it is now. Later trouble leaves the last good authorities in place.
    pub async fn from_file(path: PathBuf, every: Duration, metrics: &Metrics) -> Result<(Arc<Self>, Follower), HotError> {
        let authorities = Arc::new(Self::default());
        let target = authorities.clone();
        let take = move |contents: &[Vec<u8>]| Ok(target.replace(&contents.concat())?);
        Ok((authorities, hot::follow(Files { every, ..Files::new("client-ca", [path]) }, metrics, take).await?))
    }

    /// Lets in the certificates of other authorities from now on, given as PEM text. Open connections are not touched.
    ///
    /// # Errors
    /// If there is no authority in it, or one cannot be used. Then nothing changes.
    pub fn replace(&self, pem: &[u8]) -> Result<(), CertificateError> {
        let mut roots = RootCertStore::empty();
        for certificate in read_chain(pem)? {
            roots.add(certificate).map_err(|error| CertificateError::Authorities(error.into()))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), self.provider.clone()).build();
        let verifier = verifier.map_err(|error| CertificateError::Authorities(error.into()))?;
        self.current.store(Some(Arc::new(Verifier(verifier))));
        Ok(())
    }
}

impl ClientCertVerifier for Authorities {
    /// No hints: they would have to outlive a replacement. A client that has one certificate sends it anyway.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        match self.current.load().as_ref() {
            Some(verifier) => verifier.0.verify_client_cert(end_entity, intermediates, now),
            None => Err(rustls::Error::General("no client authority is loaded".into())),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Bearer tokens that are let in; they may be replaced at any time. Until there is one, none is.
#[derive(Debug, Default)]
pub struct Tokens {
    /// Digests, so that comparing them tells nothing about the tokens by the time it takes.
    current: ArcSwap<Vec<[u8; 32]>>,
}

impl Tokens {
    /// Reads tokens from a file, one a line, and follows it for as long as the [`Follower`] lives.
    ///
    /// # Errors
    /// If the file cannot be used as it is now. Later trouble leaves the last good tokens in place.
    pub async fn from_file(path: PathBuf, every: Duration, metrics: &Metrics) -> Result<(Arc<Self>, Follower), HotError> {
        let tokens = Arc::new(Self::default());
        let target = tokens.clone();
        let take = move |contents: &[Vec<u8>]| Ok(target.replace(&contents.concat())?);
        Ok((tokens, hot::follow(Files { every, ..Files::new("client-token", [path]) }, metrics, take).await?))
    }

    /// Lets in other tokens from now on: the lines of a text, without the white space around them. Several allow one to replace another gently.
    ///
    /// # Errors
    /// If there is none. Then nothing changes.
    pub fn replace(&self, text: &[u8]) -> Result<(), CertificateError> {
        let lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
        let digests: Vec<[u8; 32]> = lines.map(|line| Sha256::digest(line).into()).collect();
        if digests.is_empty() {
            return Err(CertificateError::NoToken);
        }
        self.current.store(Arc::new(digests));
        Ok(())
    }

    /// Tells whether the value of an `Authorization` header bears one of the tokens.
    #[must_use]
    pub fn admit(&self, header: Option<&HeaderValue>) -> bool {
        let Some((scheme, token)) = header.and_then(|value| value.as_bytes().split_at_checked(7)) else { return false };
        let digest: [u8; 32] = Sha256::digest(token.trim_ascii()).into();
        scheme.eq_ignore_ascii_case(b"bearer ") && self.current.load().contains(&digest)
    }
}

/// Returns the TLS settings of the server: TLS 1.2 and 1.3, HTTP/2 only if asked for.
///
/// Sessions are not resumed: the API server never does, and a resumed one would pass by the check of the client's certificate.
pub(super) fn tls(identity: Arc<Identity>, clients: Option<Arc<Authorities>>, http2: bool) -> Result<Arc<ServerConfig>, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = match clients {
        Some(authorities) => builder.with_client_cert_verifier(authorities),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(identity);
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.alpn_protocols = if http2 { vec![b"h2".to_vec(), b"http/1.1".to_vec()] } else { vec![b"http/1.1".to_vec()] };
    Ok(Arc::new(config))
}

/// A certificate made on the spot, for trying things out on one machine.
#[derive(Clone, Debug)]
pub struct Development {
    /// The authority, in PEM: what goes into `caBundle`.
    pub ca: String,
    /// The certificate, in PEM, for `localhost`, `127.0.0.1` and `::1`.
    pub certificate: String,
    /// Its key, in PEM.
    pub key: String,
}

impl Development {
    /// Makes an authority and a certificate of P-256 that hold for 30 days.
    ///
    /// # Errors
    /// If the system gives no randomness.
    pub fn generate() -> Result<Self, CertificateError> {
        Self::try_generate().map_err(CertificateError::Make)
    }

    fn try_generate() -> Result<Self, rcgen::Error> {
        use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};
        let day = Duration::from_secs(86_400);
        let now = SystemTime::now();
        let params = |names: Vec<String>, name: &str| -> Result<CertificateParams, rcgen::Error> {
            let mut params = CertificateParams::new(names)?;
            params.distinguished_name.push(DnType::CommonName, name);
            (params.not_before, params.not_after) = ((now - day).into(), (now + 30 * day).into());
            Ok(params)
        };
        let mut ca = params(Vec::new(), "jobgate development authority")?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca_key = KeyPair::generate()?;
        let ca_certificate = ca.self_signed(&ca_key)?;
        let mut leaf = params(vec!["localhost".into(), "127.0.0.1".into(), "::1".into()], "localhost")?;
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = leaf.signed_by(&key, &Issuer::new(ca, ca_key))?;
        Ok(Self { ca: ca_certificate.pem(), certificate: certificate.pem(), key: key.serialize_pem() })
    }
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
        assert!(left > Duration::from_secs(29 * 86_400) && left < Duration::from_secs(31 * 86_400), "{left:?}");
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
        let error = identity().replace(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap_err();
        assert!(matches!(error, CertificateError::Expired(_)), "{error}");
    }

    #[test]
    fn tokens_are_compared_whole() {
        let tokens = Tokens::default();
        let header = HeaderValue::from_static;
        assert!(!tokens.admit(Some(&header("Bearer "))));
        tokens.replace(b" one \n\ntwo\n").unwrap();
        for (value, admitted) in [
            ("Bearer one", true),
            ("bearer two", true),
            ("Bearer tw", false),
            ("Bearer twoo", false),
            ("Basic two", false),
            ("two", false),
            ("Bearer ", false),
            ("Bearer", false),
            ("", false),
        ] {
            assert_eq!(tokens.admit(Some(&header(value))), admitted, "{value:?}");
        }
        assert!(!tokens.admit(None));
        tokens.replace(b"\n").unwrap_err();
        assert!(tokens.admit(Some(&header("Bearer one"))));
    }

    #[test]
    fn authorities_need_a_certificate() {
        let authorities = Authorities::default();
        authorities.replace(b"").unwrap_err();
        authorities.replace(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap_err();
        authorities.replace(Development::generate().unwrap().ca.as_bytes()).unwrap();
    }
}

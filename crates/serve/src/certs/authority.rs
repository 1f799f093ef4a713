//! Certificates as values: the names they are for, authorities, roots (an authority without its key), and the
//! leaves an authority signs.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, NameConstraints, SerialNumber,
};
use rustls::client::danger::ServerCertVerifier as _;
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, RootCertStore, crypto};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use sha2::{Digest as _, Sha256};
use x509_parser::prelude::{FromDer as _, X509Certificate, X509Version};

use jobgate_core::k8s::names;

/// How long before its creation a certificate becomes valid, for API servers whose clock is behind.
pub(crate) const SKEW: Duration = Duration::from_secs(3600);

/// Why a certificate or a key cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A name that is not valid for a Service or namespace.
    #[error("{0:?} is not the name of a Service or namespace: {1}")]
    Name(String, String),
    /// The PEM text is broken.
    #[error("read {0} from PEM")]
    Pem(&'static str, #[source] rustls_pki_types::pem::Error),
    /// There is no certificate in the text.
    #[error("there is no certificate in it")]
    Empty,
    /// Not X.509.
    #[error("decode the certificate: {0}")]
    Decode(String),
    /// Not a private key that can sign.
    #[error("read the key")]
    Key(#[source] rcgen::Error),
    /// The key belongs to another certificate.
    #[error("the key belongs to another certificate")]
    OtherKey,
    /// What it signs does not verify: it is not an authority, or is for other names.
    #[error("what it signs for {0} is not valid")]
    Unfit(String),
    /// A certificate could not be made.
    #[error("make a certificate")]
    Make(#[source] rcgen::Error),
    /// The system has no randomness.
    #[error("get random bytes")]
    Random,
}

/// Why a client does not trust the certificate of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// None of the roots that are valid now has signed it.
    #[error("none of the authorities has signed it")]
    Unsigned,
    /// It is for other names.
    #[error("it is not for the name {0}")]
    Name(String),
    /// It has expired.
    #[error("it has expired")]
    Expired,
    /// It is not valid yet.
    #[error("it is not valid yet")]
    Early,
    /// Any other reason, as reported by the TLS library.
    #[error("{0}")]
    Other(String),
}

/// The names of the webhook's Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    service: String,
    namespace: String,
}

impl Names {
    /// Makes the names from a Service's name and namespace.
    ///
    /// # Errors
    /// If one of them is not a DNS label.
    pub fn new(service: &str, namespace: &str) -> Result<Self, AuthorityError> {
        for name in [service, namespace] {
            if let Some(why) = names::dns_label(name).into_iter().next() {
                return Err(AuthorityError::Name(name.to_owned(), why));
            }
        }
        Ok(Self { service: service.to_owned(), namespace: namespace.to_owned() })
    }

    /// Returns the Service's own name.
    #[must_use]
    pub(crate) fn service(&self) -> &str {
        &self.service
    }

    /// Returns the Service's namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the name by which the API server calls the Service, and which must be in the certificate.
    #[must_use]
    pub fn server_name(&self) -> String {
        format!("{}.{}.svc", self.service, self.namespace)
    }

    /// Returns the names in a certificate of the Service.
    #[must_use]
    pub(crate) fn dns(&self) -> [String; 2] {
        [self.server_name(), format!("{}.{}", self.service, self.namespace)]
    }
}

/// An authority's certificate, as in a `caBundle`.
#[derive(Clone, PartialEq, Eq)]
pub struct Root {
    der: CertificateDer<'static>,
    not_before: SystemTime,
    not_after: SystemTime,
}

impl Root {
    /// Reads one certificate.
    ///
    /// # Errors
    /// If it is not X.509.
    pub(crate) fn from_der(der: CertificateDer<'static>) -> Result<Self, AuthorityError> {
        let (_, certificate) =
            X509Certificate::from_der(&der).map_err(|error| AuthorityError::Decode(error.to_string()))?;
        let (not_before, not_after) =
            (certificate.validity().not_before.timestamp(), certificate.validity().not_after.timestamp());
        Ok(Self { not_before: at(not_before), not_after: at(not_after), der })
    }

    /// Reads every certificate of a PEM text, and returns whether there was nothing else in it.
    #[must_use]
    pub(crate) fn read_all(pem: &[u8]) -> (Vec<Self>, bool) {
        let mut clean = true;
        let mut roots: Vec<Self> = Vec::new();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            match certificate
                .map_err(|error| AuthorityError::Pem("a certificate", error))
                .and_then(Self::from_der)
            {
                Ok(root) if roots.contains(&root) => {}
                Ok(root) => roots.push(root),
                Err(_) => clean = false,
            }
        }
        (roots, clean)
    }

    /// Returns whether it may sign certificates. X.509 version 1 cannot express that, and Go lets such a root
    /// sign.
    #[must_use]
    pub(crate) fn is_authority(&self) -> bool {
        X509Certificate::from_der(&self.der)
            .is_ok_and(|(_, certificate)| certificate.is_ca() || certificate.version() == X509Version::V1)
    }

    /// Returns when it becomes valid.
    #[must_use]
    pub(crate) fn not_before(&self) -> SystemTime {
        self.not_before
    }

    /// Returns when it expires.
    #[must_use]
    pub(crate) fn not_after(&self) -> SystemTime {
        self.not_after
    }

    /// Returns whether the time lies within its validity.
    #[must_use]
    pub(crate) fn holds_at(&self, time: SystemTime) -> bool {
        self.not_before <= time && time < self.not_after
    }

    /// Returns it as PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        let text = base64::engine::general_purpose::STANDARD.encode(&self.der);
        let mut pem = String::with_capacity(text.len() + text.len() / 64 + 64);
        pem.push_str("-----BEGIN CERTIFICATE-----\n");
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let (line, more) = rest.split_at(rest.len().min(64));
            pem.push_str(line);
            pem.push('\n');
            rest = more;
        }
        pem.push_str("-----END CERTIFICATE-----\n");
        pem
    }

    /// Returns the first bytes of its SHA-256 digest in hexadecimal, which identify the certificate in a log.
    #[must_use]
    pub(crate) fn id(&self) -> String {
        hex(&Sha256::digest(&self.der)[..6])
    }
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Root({})", self.id())
    }
}

/// Writes roots as one PEM text.
#[must_use]
pub(crate) fn bundle(roots: &[Root]) -> String {
    roots.iter().map(Root::pem).collect()
}

/// An authority with its key. Clones share the key.
#[derive(Clone)]
pub struct Authority {
    root: Root,
    key: Arc<KeyPair>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authority({})", self.root.id())
    }
}

impl Authority {
    /// Makes a P-256 authority that may sign only for the names, valid from [`SKEW`] ago until `life` from
    /// now.
    ///
    /// # Errors
    /// If the system gives no randomness.
    pub fn generate(names: &Names, now: SystemTime, life: Duration) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate().map_err(AuthorityError::Make)?;
        let serial = serial()?;
        let mut params = CertificateParams::default();
        // Distinct names save a verifier from trying one key after the other.
        params
            .distinguished_name
            .push(DnType::CommonName, format!("jobgate authority {}", hex(&serial[..4])));
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        (params.not_before, params.not_after) = ((now - SKEW).into(), (now + life).into());
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        // A thief of the key can impersonate this webhook only.
        params.name_constraints = Some(NameConstraints {
            permitted_subtrees: names.dns().into_iter().map(GeneralSubtree::DnsName).collect(),
            excluded_subtrees: Vec::new(),
        });
        let certificate = params.self_signed(&key).map_err(AuthorityError::Make)?;
        Ok(Self { root: Root::from_der(certificate.into())?, key: Arc::new(key) })
    }

    /// Reads an authority from its certificate and key, both PEM, and tests it: a certificate that it signs
    /// for the names must verify.
    ///
    /// # Errors
    /// If one of them is broken, they do not belong together, or it is not an authority for the names. Dates
    /// are not checked.
    pub(crate) fn from_pem(certificate: &[u8], key: &[u8], names: &Names) -> Result<Self, AuthorityError> {
        let first = CertificateDer::pem_slice_iter(certificate).next().ok_or(AuthorityError::Empty)?;
        let root = Root::from_der(first.map_err(|error| AuthorityError::Pem("a certificate", error))?)?;
        let key =
            std::str::from_utf8(key).map_err(|_| AuthorityError::Key(rcgen::Error::CouldNotParseKeyPair))?;
        let key = Arc::new(KeyPair::from_pem(key).map_err(AuthorityError::Key)?);
        let (_, parsed) = X509Certificate::from_der(&root.der)
            .map_err(|error| AuthorityError::Decode(error.to_string()))?;
        if parsed.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
            return Err(AuthorityError::OtherKey);
        }
        // webpki accepts any trusted certificate as an authority; the API server does not.
        if !parsed.is_ca() {
            return Err(AuthorityError::Unfit(names.server_name()));
        }
        let authority = Self { root, key };
        let begin = authority.root.not_before;
        let trial = authority.sign(names, begin + SKEW, SKEW)?;
        if trial.verifies(std::slice::from_ref(&authority.root), begin) {
            Ok(authority)
        } else {
            Err(AuthorityError::Unfit(names.server_name()))
        }
    }

    /// Returns its public half.
    #[must_use]
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Returns its key as PEM.
    #[must_use]
    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// Makes a certificate for the Service with a new key, valid for `life` but not longer than the
    /// authority.
    ///
    /// # Errors
    /// If the system gives no randomness.
    pub fn sign(&self, names: &Names, now: SystemTime, life: Duration) -> Result<Leaf, AuthorityError> {
        let mut params = CertificateParams::new(names.dns().to_vec()).map_err(AuthorityError::Make)?;
        params.distinguished_name.push(DnType::CommonName, "jobgate");
        params.serial_number = Some(SerialNumber::from_slice(&serial()?));
        let (begin, end) = ((now - SKEW).max(self.root.not_before), (now + life).min(self.root.not_after));
        (params.not_before, params.not_after) = (begin.into(), end.into());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(AuthorityError::Make)?;
        let issuer = Issuer::from_ca_cert_der(&self.root.der, &*self.key).map_err(AuthorityError::Make)?;
        let certificate = params.signed_by(&key, &issuer).map_err(AuthorityError::Make)?;
        let root = Root::from_der(certificate.into())?;
        Ok(Leaf {
            certificate: root,
            key: key.serialize_pem(),
            signer: self.clone(),
            signed: now,
            server_name: names.server_name(),
        })
    }
}

/// The certificate that one replica serves, with the authority that signed it.
#[derive(Clone)]
pub struct Leaf {
    certificate: Root,
    key: String,
    signer: Authority,
    signed: SystemTime,
    server_name: String,
}

impl fmt::Debug for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Leaf({} of {})", self.certificate.id(), self.signer.root.id())
    }
}

impl Leaf {
    /// Returns it as PEM.
    #[must_use]
    pub fn certificate_pem(&self) -> String {
        self.certificate.pem()
    }

    /// Returns its key as PEM.
    #[must_use]
    pub fn key_pem(&self) -> &str {
        &self.key
    }

    /// Returns the authority that signed it.
    #[must_use]
    pub(crate) fn signer(&self) -> &Authority {
        &self.signer
    }

    /// Returns when it was signed, by the clock of the API server.
    #[must_use]
    pub(crate) fn signed(&self) -> SystemTime {
        self.signed
    }

    /// Returns when it expires.
    #[must_use]
    pub(crate) fn not_after(&self) -> SystemTime {
        self.certificate.not_after
    }

    /// Returns whether the time lies within its validity.
    #[must_use]
    pub(crate) fn holds_at(&self, time: SystemTime) -> bool {
        self.certificate.holds_at(time)
    }

    /// Returns whether the API server, trusting the roots, accepts it for the Service at that time (see
    /// [`verify`]).
    #[must_use]
    pub(crate) fn verifies(&self, roots: &[Root], time: SystemTime) -> bool {
        verify(&self.certificate.der, &[], roots, &self.server_name, time).is_ok()
    }
}

/// Verifies the certificate of a server and its intermediates as the API server does, which is written in Go:
/// roots that have expired or may not sign are ignored, and a root may be the certificate of the server
/// itself.
///
/// # Errors
/// It is not trusted at that time.
pub(crate) fn verify(
    leaf: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    roots: &[Root],
    server_name: &str,
    time: SystemTime,
) -> Result<(), Distrust> {
    let other = |error: &dyn fmt::Display| Distrust::Other(error.to_string());
    let name = ServerName::try_from(server_name).map_err(|error| other(&error))?;
    let since = time.duration_since(UNIX_EPOCH).map_err(|error| other(&error))?;
    if let Some(root) = roots.iter().find(|root| root.der == *leaf) {
        let parsed = ParsedCertificate::try_from(leaf).map_err(|error| other(&error))?;
        verify_server_name(&parsed, &name).map_err(|_| Distrust::Name(server_name.to_owned()))?;
        return match () {
            () if time < root.not_before => Err(Distrust::Early),
            () if time >= root.not_after => Err(Distrust::Expired),
            () => Ok(()),
        };
    }
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(
        roots.iter().filter(|root| root.holds_at(time) && root.is_authority()).map(|root| root.der.clone()),
    );
    if store.is_empty() {
        return Err(Distrust::Unsigned);
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider())
        .build()
        .map_err(|error| other(&error))?;
    let Err(error) =
        verifier.verify_server_cert(leaf, intermediates, &name, &[], UnixTime::since_unix_epoch(since))
    else {
        return Ok(());
    };
    Err(match error {
        rustls::Error::InvalidCertificate(error) => match error {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Distrust::Unsigned,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Distrust::Name(server_name.to_owned())
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Distrust::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Distrust::Early,
            error => other(&error),
        },
        error => other(&error),
    })
}

/// Converts seconds since 1970; a forged certificate may have an earlier time.
fn at(seconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(crypto::ring::default_provider())
}

/// Returns 128 random bits for a serial number, with the sign bit clear and not zero.
fn serial() -> Result<[u8; 16], AuthorityError> {
    let mut bytes = [0; 16];
    provider().secure_random.fill(&mut bytes).map_err(|_| AuthorityError::Random)?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::samples::{self, DAY, authority, names, now};

    #[test]
    fn distrust_has_a_reason() {
        let authority = authority();
        let leaf = authority.sign(&names(), now(), 7 * DAY).unwrap();
        let der = &leaf.certificate.der;
        let judge = |roots: &[Root], name: &str, time: SystemTime| verify(der, &[], roots, name, time);
        let (own, name) = ([authority.root().clone()], "jobgate.jobgate-system.svc");
        assert_eq!(judge(&own, name, now()), Ok(()));
        assert_eq!(
            judge(&own, "jobgate.other.svc", now()),
            Err(Distrust::Name("jobgate.other.svc".to_owned()))
        );
        assert_eq!(judge(&own, name, now() + 8 * DAY), Err(Distrust::Expired));
        assert_eq!(
            judge(&own, name, now() + 400 * DAY),
            Err(Distrust::Unsigned),
            "the root has expired, too"
        );
        assert_eq!(judge(&[self::authority().root().clone()], name, now()), Err(Distrust::Unsigned));
        assert_eq!(judge(&[], name, now()), Err(Distrust::Unsigned));
        assert!(matches!(judge(&own, "no name", now()), Err(Distrust::Other(_))));
    }

    #[test]
    fn a_server_may_be_trusted_by_its_own_certificate_and_by_no_other_that_may_not_sign() {
        let authority = authority();
        let leaf = authority.sign(&names(), now(), 7 * DAY).unwrap();
        let (own, name) = ([leaf.certificate.clone()], "jobgate.jobgate-system.svc");
        assert!(!own[0].is_authority() && authority.root().is_authority());
        assert_eq!(verify(&leaf.certificate.der, &[], &own, name, now()), Ok(()));
        assert_eq!(
            verify(&leaf.certificate.der, &[], &own, "other", now()),
            Err(Distrust::Name("other".to_owned()))
        );
        assert_eq!(verify(&leaf.certificate.der, &[], &own, name, now() + 8 * DAY), Err(Distrust::Expired));
        let other = authority.sign(&names(), now(), 7 * DAY).unwrap();
        assert_eq!(verify(&other.certificate.der, &[], &own, name, now()), Err(Distrust::Unsigned));
    }

    #[test]
    fn what_is_signed_verifies_while_both_hold() {
        let authority = authority();
        let leaf = authority.sign(&names(), now(), 7 * DAY).unwrap();
        let roots = [authority.root().clone()];
        assert!(leaf.verifies(&roots, now() - SKEW) && leaf.verifies(&roots, now() + 6 * DAY));
        assert!(
            !leaf.verifies(&roots, now() - SKEW - Duration::from_secs(1))
                && !leaf.verifies(&roots, now() + 8 * DAY)
        );
        assert!(!leaf.verifies(&[], now()) && !leaf.verifies(&[samples::authority().root().clone()], now()));
        let long = authority.sign(&names(), now(), 900 * DAY).unwrap();
        assert_eq!(long.not_after(), authority.root().not_after(), "a leaf does not outlive its authority");
    }

    #[test]
    fn the_leaf_says_what_it_is_for() {
        let leaf = authority().sign(&names(), now(), DAY).unwrap();
        let (_, parsed) = X509Certificate::from_der(&leaf.certificate.der).unwrap();
        let text = format!("{:?}", parsed.subject_alternative_name().unwrap().unwrap().value);
        assert!(
            text.contains("DNSName(\"jobgate.jobgate-system.svc\")")
                && text.contains("DNSName(\"jobgate.jobgate-system\")"),
            "{text}"
        );
        let usage = parsed.extended_key_usage().unwrap().unwrap().value;
        assert!(usage.server_auth && !usage.client_auth && !usage.any);
        assert!(!parsed.is_ca());
        assert_eq!(parsed.serial.bits(), 127, "128 bits, the first of them zero");
    }

    #[test]
    fn an_authority_is_for_its_names_only() {
        let authority = authority();
        let (_, parsed) = X509Certificate::from_der(&authority.root.der).unwrap();
        assert_eq!(parsed.basic_constraints().unwrap().unwrap().value.path_len_constraint, Some(0));
        let other = Names::new("kubernetes", "default").unwrap();
        let stolen = authority.sign(&other, now(), DAY).unwrap();
        assert!(!stolen.verifies(&[authority.root().clone()], now()));
        let (certificate, key) = (authority.root().pem(), authority.key_pem());
        Authority::from_pem(certificate.as_bytes(), key.as_bytes(), &names()).unwrap();
        let error = Authority::from_pem(certificate.as_bytes(), key.as_bytes(), &other).unwrap_err();
        assert!(matches!(error, AuthorityError::Unfit(_)), "{error}");
    }

    #[test]
    fn what_is_written_is_read() {
        let made = authority();
        let read =
            Authority::from_pem(made.root().pem().as_bytes(), made.key_pem().as_bytes(), &names()).unwrap();
        assert_eq!(read.root(), made.root());
        assert!(read.sign(&names(), now(), DAY).unwrap().verifies(&[made.root().clone()], now()));
        let other = authority();
        let both = bundle(&[made.root().clone(), other.root().clone(), made.root().clone()]);
        assert_eq!(Root::read_all(both.as_bytes()), (vec![made.root().clone(), other.root().clone()], true));
    }

    #[test]
    fn garbage_is_refused() {
        let (made, other) = (authority(), authority());
        let leaf = made.sign(&names(), now(), DAY).unwrap();
        let (pem, key) = (made.root().pem(), made.key_pem());
        let torn = &pem[..pem.len() / 2];
        for (certificate, key) in [
            ("", key.as_str()),
            ("garbage", &key),
            (torn, &key),
            (&pem, ""),
            (&pem, "garbage"),
            (&pem, &other.key_pem()),
            (&key, &pem),
            (&leaf.certificate_pem(), leaf.key_pem()),
        ] {
            Authority::from_pem(certificate.as_bytes(), key.as_bytes(), &names()).unwrap_err();
        }
        Authority::from_pem(&[0xff, 0xfe], &[0xff], &names()).unwrap_err();
        assert_eq!(Root::read_all(b"garbage"), (Vec::new(), true));
        let mixed = format!("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n{pem}");
        assert_eq!(Root::read_all(mixed.as_bytes()), (vec![made.root().clone()], false));
    }

    #[test]
    fn what_is_signed_may_follow_what_was_signed_before() {
        use crate::server::{Metrics, certificate::Identity};
        let now = SystemTime::now();
        let identity = Identity::empty(&Metrics::new()).requiring(vec![names().server_name()]);
        let serve = |authority: &Authority, at: SystemTime| {
            let leaf = authority.sign(&names(), at, 7 * DAY).unwrap();
            identity.replace(leaf.certificate_pem().as_bytes(), leaf.key_pem().as_bytes())
        };
        let [first, second] = [0, 1].map(|_| Authority::generate(&names(), now, 365 * DAY).unwrap());
        for (what, authority, at) in [
            ("at first", &first, now),
            ("renewed", &first, now),
            ("by the next authority", &second, now),
            ("by a clock that is behind", &second, now - DAY),
            ("by a clock that is ahead by less than half an hour", &second, now + SKEW / 2),
        ] {
            serve(authority, at).unwrap_or_else(|error| panic!("{what}: {error}"));
        }
    }

    #[test]
    fn names_are_labels() {
        for (service, namespace) in [("", "a"), ("a", ""), ("a.b", "c"), ("A", "b"), ("a", "b/c"), ("a", "*")]
        {
            Names::new(service, namespace).unwrap_err();
        }
    }

    #[test]
    fn nothing_prints_a_key() {
        let authority = authority();
        let leaf = authority.sign(&names(), now(), DAY).unwrap();
        let shown = format!("{authority:?} {leaf:?}");
        assert!(!shown.contains("PRIVATE") && shown.len() < 100, "{shown}");
    }
}

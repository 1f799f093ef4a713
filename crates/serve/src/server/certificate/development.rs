//! A certificate that is made at startup, for development on one machine.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use super::CertificateError;

/// A certificate that is made at startup, for development on one machine.
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
    /// Makes an authority and a certificate of P-256, valid for 30 days.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn generate() -> Result<Self, CertificateError> {
        Self::try_generate().map_err(CertificateError::Make)
    }

    fn try_generate() -> Result<Self, rcgen::Error> {
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

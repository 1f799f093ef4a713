//! A certificate authority for one run.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        Self(
            CertifiedIssuer::self_signed(params, KeyPair::generate().expect("make a key"))
                .expect("sign the authority"),
        )
    }

    pub(crate) fn certificate(&self) -> String {
        self.0.pem()
    }

    /// Makes a certificate for a server on this machine.
    pub(crate) fn server(&self) -> Pair {
        self.server_of(&[])
    }

    /// Makes a certificate for a server on this machine that is called by other names, too.
    pub(crate) fn server_of(&self, names: &[String]) -> Pair {
        let own = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let all = own.into_iter().chain(names.iter().cloned()).collect::<Vec<_>>();
        let mut params = CertificateParams::new(all).expect("these are names");
        params.distinguished_name.push(DnType::CommonName, "localhost");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().expect("make a key");
        let certificate = params.signed_by(&key, &self.0).expect("sign the certificate");
        Pair { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// Makes a key pair as PEM: the private key and the public one.
pub(crate) fn key_pair() -> (String, String) {
    let pair = KeyPair::generate().expect("make a key");
    (pair.serialize_pem(), pair.public_key_pem())
}

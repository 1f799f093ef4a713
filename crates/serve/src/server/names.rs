//! The names in a certificate, what it is for, and when it is valid.
//!
//! A server is identified only by its subject alternative names: no API server since 1.19 uses the common
//! name. A client is identified by the common name too, because Kubernetes puts the user name of a client
//! there.

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::client::verify_server_name;
use rustls::server::ParsedCertificate;
use rustls_pki_types::{CertificateDer, ServerName};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The contents of one certificate.
#[derive(Debug)]
pub(super) struct CertificateContents {
    der: CertificateDer<'static>,
    /// DNS names in lower case, and addresses, as text, in the order of the certificate.
    hosts: Vec<String>,
    /// URIs of the subject alternative names.
    uris: Vec<String>,
    /// Common names of the subject.
    common_names: Vec<String>,
    /// Whether a server may use it: it does not restrict its usage, or its usage includes servers.
    pub(super) for_servers: bool,
    /// When it becomes valid.
    pub(super) not_before: SystemTime,
    /// When it expires.
    pub(super) not_after: SystemTime,
}

impl CertificateContents {
    /// Reads a certificate.
    ///
    /// # Errors
    /// If it is not X.509 or has an extension that cannot be read.
    pub(super) fn from_der(der: &CertificateDer<'_>) -> Result<Self, String> {
        let (_, certificate) = X509Certificate::from_der(der).map_err(|error| error.to_string())?;
        let usage = certificate.extended_key_usage().map_err(|error| error.to_string())?;
        let names = certificate.subject_alternative_name().map_err(|error| error.to_string())?;
        let (mut hosts, mut uris) = (Vec::new(), Vec::new());
        for name in names.iter().flat_map(|names| &names.value.general_names) {
            match name {
                GeneralName::DNSName(name) => hosts.push(name.to_ascii_lowercase()),
                GeneralName::IPAddress(bytes) => {
                    hosts.extend(address(bytes).map(|address| address.to_string()));
                }
                GeneralName::URI(uri) => uris.push((*uri).to_owned()),
                _ => {}
            }
        }
        let common_names = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        Ok(Self {
            hosts,
            uris,
            common_names: common_names.map(str::to_owned).collect(),
            for_servers: usage.is_none_or(|usage| usage.value.server_auth || usage.value.any),
            not_before: time(certificate.validity().not_before.timestamp()),
            not_after: time(certificate.validity().not_after.timestamp()),
            der: der.clone().into_owned(),
        })
    }

    /// Returns the DNS names and addresses of a server.
    pub(super) fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Returns whether it is valid for a server called `name`. A wildcard in it matches the names that it
    /// covers; a `name` that is a wildcard must be in it literally.
    pub(super) fn is_for(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        if self.hosts.contains(&name) {
            return true;
        }
        let Ok(name) = ServerName::try_from(name) else { return false };
        ParsedCertificate::try_from(&self.der).is_ok_and(|parsed| verify_server_name(&parsed, &name).is_ok())
    }

    /// Returns whether a client with it is called `name`, by a DNS name, a URI or a common name. Names are
    /// compared whole; a wildcard never matches.
    pub(super) fn is_called(&self, name: &str) -> bool {
        let exactly = |names: &[String]| names.iter().any(|each| each == name);
        exactly(&self.uris) || exactly(&self.common_names) || self.hosts.contains(&name.to_ascii_lowercase())
    }
}

/// Reads the bytes of an address in a certificate.
fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

/// Converts seconds since 1970; earlier times count as 1970.
fn time(seconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, SanType};

    use super::*;

    fn claims(names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> CertificateContents {
        let mut params =
            CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
        change(&mut params);
        CertificateContents::from_der(params.self_signed(&KeyPair::generate().unwrap()).unwrap().der())
            .unwrap()
    }

    #[test]
    fn a_server_is_known_by_its_alternative_names_alone() {
        let read = claims(&["a.example", "*.b.example", "10.0.0.1", "::1"], |params| {
            params.distinguished_name.push(DnType::CommonName, "c.example");
        });
        assert_eq!(read.hosts(), ["a.example", "*.b.example", "10.0.0.1", "::1"]);
        for (name, expected) in [
            ("a.example", true),
            ("A.Example", true),
            ("x.b.example", true),
            ("*.b.example", true),
            ("10.0.0.1", true),
            ("::1", true),
            ("b.example", false),
            ("x.y.b.example", false),
            ("*.a.example", false),
            ("c.example", false),
            ("10.0.0.2", false),
            ("not a name", false),
            ("", false),
        ] {
            assert_eq!(read.is_for(name), expected, "{name:?}");
        }
    }

    #[test]
    fn a_use_that_is_not_restricted_includes_servers() {
        let used = |usages: &[ExtendedKeyUsagePurpose]| {
            claims(&["a"], |params| params.extended_key_usages = usages.to_vec()).for_servers
        };
        assert!(used(&[]));
        assert!(used(&[ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth]));
        assert!(used(&[ExtendedKeyUsagePurpose::Any]));
        assert!(!used(&[ExtendedKeyUsagePurpose::ClientAuth]));
    }

    #[test]
    fn a_client_is_called_by_any_of_its_names_and_by_no_pattern() {
        let read = claims(&["api.example", "*.example"], |params| {
            params.distinguished_name.push(DnType::CommonName, "system:apiserver");
            params.subject_alt_names.push(SanType::URI("spiffe://c/apiserver".try_into().unwrap()));
        });
        for (name, expected) in [
            ("api.example", true),
            ("API.example", true),
            ("spiffe://c/apiserver", true),
            ("system:apiserver", true),
            ("System:apiserver", false),
            ("other.example", false),
            ("spiffe://c/", false),
            ("", false),
        ] {
            assert_eq!(read.is_called(name), expected, "{name:?}");
        }
    }
}

//! The authentication of clients: certificates and bearer tokens.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use http::HeaderValue;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};
use sha2::{Digest as _, Sha256};

use super::{CertificateError, provider, read_chain};
use crate::server::metrics::Metrics;
use crate::server::names::CertificateContents;
use crate::server::reload::{self, Files, Follower, HotError};

/// The authorities of accepted client certificates; they may be replaced at any time.
#[derive(Debug)]
pub struct Authorities {
    current: ArcSwapOption<Verifier>,
    /// Only certificates with one of these names are accepted; all if empty.
    names: Vec<String>,
    provider: Arc<CryptoProvider>,
}

/// A sized wrapper for the trait object, which `ArcSwap` requires.
#[derive(Debug)]
struct Verifier(Arc<dyn ClientCertVerifier>);

impl Default for Authorities {
    fn default() -> Self {
        Self { current: ArcSwapOption::empty(), names: Vec::new(), provider: provider() }
    }
}

impl Authorities {
    /// Accepts only certificates with one of these names: a DNS name or URI of the subjectAltName, or the
    /// common name, compared whole. Without it, the certificate of an authority that also signs for others (a
    /// cluster's signs for every kubelet) does not identify the caller.
    #[must_use]
    pub fn naming(mut self, names: Vec<String>) -> Self {
        self.names = names;
        self
    }

    /// Reads authorities from a PEM file, and follows it for as long as the [`Follower`] lives.
    ///
    /// # Errors
    /// If the file cannot be used now. Later errors leave the last good authorities in place.
    pub async fn follow(
        self,
        path: PathBuf,
        every: Duration,
        metrics: &Metrics,
    ) -> Result<(Arc<Self>, Follower), HotError> {
        let authorities = Arc::new(self);
        let target = authorities.clone();
        let take = move |contents: &[Vec<u8>]| Ok(target.replace(&contents.concat())?);
        Ok((
            authorities,
            reload::follow(Files { every, ..Files::new("client-ca", [path]) }, metrics, take).await?,
        ))
    }

    /// Checks the name of a client certificate.
    ///
    /// # Errors
    /// If it has none of the accepted names.
    fn check_name(&self, certificate: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        if self.names.is_empty() {
            return Ok(());
        }
        let claims =
            CertificateContents::from_der(certificate).map_err(|_| rustls::CertificateError::BadEncoding)?;
        if self.names.iter().any(|name| claims.is_called(name)) {
            return Ok(());
        }
        Err(rustls::CertificateError::ApplicationVerificationFailure.into())
    }

    /// Accepts certificates of other authorities from now on, given as PEM. Open connections are not
    /// affected.
    ///
    /// # Errors
    /// If there is no authority in it, or one cannot be used. Then nothing changes.
    pub fn replace(&self, pem: &[u8]) -> Result<(), CertificateError> {
        let mut roots = RootCertStore::empty();
        for certificate in read_chain(pem)? {
            roots.add(certificate).map_err(|error| CertificateError::Authorities(error.into()))?;
        }
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), self.provider.clone()).build();
        let verifier = verifier.map_err(|error| CertificateError::Authorities(error.into()))?;
        self.current.store(Some(Arc::new(Verifier(verifier))));
        Ok(())
    }
}

impl ClientCertVerifier for Authorities {
    /// No hints: they would have to outlive a replacement of the authorities. A client with a single
    /// certificate sends it anyway.
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
            Some(verifier) => {
                let verified = verifier.0.verify_client_cert(end_entity, intermediates, now)?;
                self.check_name(end_entity)?;
                Ok(verified)
            }
            None => Err(rustls::Error::General("no client authority is loaded".into())),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Accepted bearer tokens; they may be replaced at any time. At first there are none.
#[derive(Debug, Default)]
pub struct Tokens {
    /// Digests, so that the time of a comparison reveals nothing about the tokens.
    current: ArcSwap<Vec<[u8; 32]>>,
}

impl Tokens {
    /// Reads tokens from a file, one a line, and follows it for as long as the [`Follower`] lives.
    ///
    /// # Errors
    /// If the file cannot be used now. Later errors leave the last good tokens in place.
    pub async fn from_file(
        path: PathBuf,
        every: Duration,
        metrics: &Metrics,
    ) -> Result<(Arc<Self>, Follower), HotError> {
        let tokens = Arc::new(Self::default());
        let target = tokens.clone();
        let take = move |contents: &[Vec<u8>]| Ok(target.replace(&contents.concat())?);
        Ok((
            tokens,
            reload::follow(Files { every, ..Files::new("client-token", [path]) }, metrics, take).await?,
        ))
    }

    /// Accepts other tokens from now on: the lines of a text, trimmed. With several, one can replace another
    /// gradually.
    ///
    /// # Errors
    /// If there is none. Then nothing changes.
    pub(crate) fn replace(&self, text: &[u8]) -> Result<(), CertificateError> {
        let lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
        let digests: Vec<[u8; 32]> = lines.map(|line| Sha256::digest(line).into()).collect();
        if digests.is_empty() {
            return Err(CertificateError::NoToken);
        }
        self.current.store(Arc::new(digests));
        Ok(())
    }

    /// Returns whether the value of an `Authorization` header has one of the tokens.
    #[must_use]
    pub(crate) fn admit(&self, header: Option<&HeaderValue>) -> bool {
        let Some((scheme, token)) = header.and_then(|value| value.as_bytes().split_at_checked(7)) else {
            return false;
        };
        let digest: [u8; 32] = Sha256::digest(token.trim_ascii()).into();
        scheme.eq_ignore_ascii_case(b"bearer ") && self.current.load().contains(&digest)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Development;
    use super::*;

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

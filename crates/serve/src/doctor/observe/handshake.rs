//! Reads the certificate of a server in a TLS handshake, trusted or not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

/// Records and accepts every certificate: it is verified afterwards, against each `caBundle`. That the server
/// has the key is verified here. No data is ever sent over such a connection.
#[derive(Debug)]
struct Recorder {
    provider: Arc<CryptoProvider>,
    seen: Mutex<Vec<CertificateDer<'static>>>,
    /// Whether the server has proved that it has the key.
    proven: AtomicBool,
}

impl Recorder {
    fn proven(
        &self,
        verified: Result<HandshakeSignatureValid, rustls::Error>,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.proven.store(verified.is_ok(), Ordering::Relaxed);
        verified
    }
}

impl ServerCertVerifier for Recorder {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let all =
            std::iter::once(leaf).chain(intermediates).map(|certificate| certificate.clone().into_owned());
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = all.collect();
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        self.proven(verify_tls12_signature(message, cert, dss, algorithms))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        self.proven(verify_tls13_signature(message, cert, dss, algorithms))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Returns the chain for the name, the server's own certificate first.
///
/// # Errors
/// There was no handshake by the deadline; as a message.
pub(super) async fn chain<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    name: &str,
    deadline: Instant,
) -> Result<Vec<CertificateDer<'static>>, String> {
    let name = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
    let provider = Arc::new(ring::default_provider());
    let recorder = Arc::new(Recorder {
        provider: Arc::clone(&provider),
        seen: Mutex::default(),
        proven: AtomicBool::new(false),
    });
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let config = config
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&recorder) as Arc<dyn ServerCertVerifier>)
        .with_no_client_auth();
    let shaken = timeout_at(deadline, TlsConnector::from(Arc::new(config)).connect(name, stream)).await;
    let seen = std::mem::take(&mut *recorder.seen.lock().unwrap_or_else(PoisonError::into_inner));
    match shaken {
        // A server that requires a client certificate has sent its own by then.
        _ if recorder.proven.load(Ordering::Relaxed) => Ok(seen),
        Ok(Err(error)) => Err(format!("no TLS handshake: {}", jobgate_cluster::chain(&error))),
        _ => Err("no TLS handshake: no answer".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use rustls::server::ServerConfig;
    use rustls::sign::{CertifiedKey, SingleCertAndKey};
    use rustls::version::{TLS12, TLS13};
    use rustls::{ALL_VERSIONS, SupportedProtocolVersion};
    use rustls_pki_types::PrivateKeyDer;
    use rustls_pki_types::pem::PemObject as _;
    use tokio::io::AsyncWriteExt as _;
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::certs::Names;
    use crate::certs::authority::{Authority, Leaf, verify};

    const DAY: Duration = Duration::from_secs(86_400);

    /// Returns what is seen of a server that shows the certificate and signs with the key.
    async fn seen(
        certificate: &Leaf,
        key: &Leaf,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Result<Vec<CertificateDer<'static>>, String> {
        let certificate = CertificateDer::from_pem_slice(certificate.certificate_pem().as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.key_pem().as_bytes()).unwrap();
        let key = ring::sign::any_supported_type(&key).unwrap();
        let shown = SingleCertAndKey::from(CertifiedKey::new(vec![certificate], key));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap();
        let config = Arc::new(config.with_no_client_auth().with_cert_resolver(Arc::new(shown)));
        let (client, server) = tokio::io::duplex(1 << 14);
        let serving = tokio::spawn(async move { TlsAcceptor::from(config).accept(server).await.map(drop) });
        let chain = chain(client, "jobgate.ours.svc", Instant::now() + DAY).await;
        let _ = serving.await;
        chain
    }

    #[tokio::test]
    async fn what_is_served_is_seen_and_then_judged() {
        let (names, now) = (Names::new("jobgate", "ours").unwrap(), SystemTime::now());
        let authority = Authority::generate(&names, now, 30 * DAY).unwrap();
        let [leaf, other] = [(); 2].map(|()| authority.sign(&names, now, 7 * DAY).unwrap());
        for version in [&TLS12, &TLS13] {
            let error = seen(&leaf, &other, &[version]).await.unwrap_err();
            assert!(
                error.contains("BadSignature"),
                "who does not hold the key shows nothing of its own: {error}"
            );
        }
        let chain = seen(&leaf, &leaf, ALL_VERSIONS).await.unwrap();
        let roots = [authority.root().clone()];
        assert_eq!(verify(&chain[0], &chain[1..], &roots, "jobgate.ours.svc", now), Ok(()));
        assert!(verify(&chain[0], &chain[1..], &roots, "jobgate.theirs.svc", now).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn what_speaks_no_tls_is_an_error() {
        let deadline = Instant::now() + Duration::from_secs(5);
        let (client, mut server) = tokio::io::duplex(1 << 14);
        server.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        let error = chain(client, "localhost", deadline).await.unwrap_err();
        assert!(error.starts_with("no TLS handshake: received corrupt message"), "{error}");
        let (client, _silent) = tokio::io::duplex(1 << 14);
        assert_eq!(chain(client, "localhost", deadline).await.unwrap_err(), "no TLS handshake: no answer");
        assert_eq!(Instant::now(), deadline, "and no later");
    }
}

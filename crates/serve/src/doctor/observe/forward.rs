//! Opens a port of a pod through the API server: `kubectl port-forward`, for one connection. kube implements
//! the protocol; the error messages and the timeout, which the caller applies, are ours. The timeout is the
//! only limit on the text of a rejection, which kube reads to its end.

use std::future::{Future, pending};

use k8s_openapi::api::core::v1::Pod;
use kube::client::UpgradeConnectionError;
use kube::{Api, Client, Error};
use tokio::io::DuplexStream;

use crate::doctor::examination::shown;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum ForwardError {
    #[error("the API server forbids it")]
    Forbidden,
    #[error("the API server says: {0}")]
    Rejected(String),
    #[error("the API server rejects it without a reason")]
    Speechless,
    #[error("the API server, or a proxy before it, does not support WebSocket")]
    Upgrade(#[source] UpgradeConnectionError),
    #[error("reach the API server")]
    Transport(#[source] Error),
    #[error("the API server did not answer in time")]
    Silence,
}

impl From<Error> for ForwardError {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(status) if status.code == 403 || status.reason == "Forbidden" => Self::Forbidden,
            Error::Api(status) if status.message.is_empty() => Self::Speechless,
            Error::Api(status) => Self::Rejected(shown(&status.message)),
            Error::UpgradeConnection(error) => Self::Upgrade(error),
            error => Self::Transport(error),
        }
    }
}

/// Opens a connection to a port of a pod, and returns a future that resolves to an error message of the far
/// end, after which the connection is useless. Other failures end the connection without a message. Dropping
/// the connection closes it.
pub(super) async fn dial(
    client: &Client,
    namespace: &str,
    pod: &str,
    port: u16,
) -> Result<(DuplexStream, impl Future<Output = String> + use<>), ForwardError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut forwarder = pods.portforward(pod, &[port]).await?;
    // Both exist once for each port.
    let (Some(stream), Some(error)) = (forwarder.take_stream(port), forwarder.take_error(port)) else {
        return Err(ForwardError::Silence);
    };
    let trouble = async move {
        match error.await {
            Some(text) => shown(&text),
            None => pending().await,
        }
    };
    Ok((stream, trouble))
}

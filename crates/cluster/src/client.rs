//! The connection to the API server.

use std::path::Path;
use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

use crate::causes::chain;

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The process does not run in a pod with a service account token.
    #[error("read the pod's service account")]
    InCluster(#[source] kube::config::InClusterError),
    /// The kubeconfig cannot be read, or has no such context.
    #[error("the kubeconfig {file}: {problem}")]
    Kubeconfig {
        /// Its path or paths.
        file: String,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// The configuration needs something that fails, such as a proxy or a credential plugin.
    #[error("set up the connection to the API server: {0}")]
    Connect(String),
}

impl ClientError {
    /// Explains an error in the kubeconfig at `path`, or else in the one from the environment.
    fn kubeconfig(path: Option<&Path>, context: Option<&str>, error: &KubeconfigError) -> Self {
        let home = || {
            std::env::home_dir().map_or_else(
                || "~/.kube/config".to_owned(),
                |home| home.join(".kube/config").display().to_string(),
            )
        };
        let environment = || std::env::var("KUBECONFIG").ok().filter(|paths| !paths.is_empty());
        let file = path.map_or_else(|| environment().unwrap_or_else(home), |path| path.display().to_string());
        let read = || path.map_or_else(Kubeconfig::read, Kubeconfig::read_from).ok();
        let contexts = || {
            let contexts: Vec<String> = read()
                .map(|config| config.contexts.into_iter().map(|context| context.name).collect())
                .unwrap_or_default();
            if contexts.is_empty() {
                "it has none".to_owned()
            } else {
                format!("it has {}", contexts.join(", "))
            }
        };
        let problem = match error {
            KubeconfigError::ReadConfig(error, _) => {
                format!("cannot read it: {error}; name another with --kubeconfig or KUBECONFIG")
            }
            KubeconfigError::FindPath => "there is no home directory; name it with --kubeconfig".to_owned(),
            KubeconfigError::Parse(error) => {
                let text = error.to_string();
                let line = text.lines().next().unwrap_or_default();
                format!("it is not a valid kubeconfig: {}", line.strip_prefix("error: ").unwrap_or(line))
            }
            KubeconfigError::CurrentContextNotSet => {
                format!("it has no current context; name one with --context ({})", contexts())
            }
            KubeconfigError::LoadContext(name) if context.is_some() => {
                format!("there is no context `{name}` in it ({})", contexts())
            }
            KubeconfigError::LoadContext(name) => {
                format!("its current context `{name}` is not in it; name one with --context ({})", contexts())
            }
            KubeconfigError::LoadClusterOfContext(name) => {
                format!("it has no cluster `{name}`, which the context names")
            }
            KubeconfigError::MissingClusterUrl => {
                "the cluster that the context names has no `server`".to_owned()
            }
            error => chain(error),
        };
        Self::Kubeconfig { file, problem }
    }

    fn connect(error: &kube::Error) -> Self {
        Self::Connect(chain(error))
    }
}

/// The token that the kubelet mounts into a pod by default.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// Returns whether the process runs in a pod that can use the API server: its address is in the environment
/// and a token is mounted.
#[must_use]
pub fn in_cluster() -> bool {
    std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() && Path::new(TOKEN).exists()
}

/// Returns a client with the pod's service account. The token is read again as the kubelet renews it.
///
/// # Errors
/// There is no usable service account (see [`in_cluster`]).
pub fn client_in_cluster() -> Result<Client, ClientError> {
    connect(Config::incluster().map_err(ClientError::InCluster)?)
        .map_err(|error| ClientError::connect(&error))
}

/// A client and its API server.
#[derive(Clone)]
#[allow(missing_debug_implementations, reason = "kube's client has none")]
pub struct Connection {
    /// The client.
    pub client: Client,
    /// The API server's URL, for people.
    pub server: String,
}

/// Returns whether the connection is to the cluster of this pod.
#[must_use]
pub fn is_own(connection: &Connection) -> bool {
    in_cluster()
        && Config::incluster()
            .is_ok_and(|own| own.cluster_url.to_string().trim_end_matches('/') == connection.server)
}

/// Returns a connection for a command that a person runs: with the kubeconfig at `path`, else `KUBECONFIG`,
/// else `~/.kube/config`; with the named context, or the current one. In a pod without any of these, it uses
/// the service account.
///
/// # Errors
/// The kubeconfig cannot be read, has no such context, or needs something that fails.
pub async fn connection(path: Option<&Path>, context: Option<&str>) -> Result<Connection, ClientError> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = match path {
        Some(path) => match Kubeconfig::read_from(path) {
            Ok(read) => Config::from_custom_kubeconfig(read, &options).await,
            Err(error) => Err(error),
        },
        None => Config::from_kubeconfig(&options).await,
    };
    let asked_for = path.is_some() || context.is_some() || std::env::var_os("KUBECONFIG").is_some();
    let config = match config {
        Err(_) if !asked_for && in_cluster() => Config::incluster().map_err(ClientError::InCluster)?,
        config => config.map_err(|error| ClientError::kubeconfig(path, context, &error))?,
    };
    let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    Ok(Connection { client: connect(config).map_err(|error| ClientError::connect(&error))?, server })
}

/// Builds a client without kube's own layers, which retry (within the budget of a review) and log every
/// failed request as an error.
fn connect(config: Config) -> Result<Client, kube::Error> {
    if config.proxy_url.is_some() {
        return Client::try_from(config);
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(Duration::from_secs(2)));
    // A watch may be silent for any time, so the kernel checks that the other end is still there: a broken
    // connection ends after half a minute instead of eleven with the default intervals.
    tcp.set_keepalive(Some(Duration::from_secs(15)));
    tcp.set_keepalive_interval(Some(Duration::from_secs(5)));
    tcp.set_keepalive_retries(Some(3));
    let tls = config.rustls_https_connector_with_connector(tcp)?;
    // Each answer has its own deadline (see `live` and `mirror`), after which its connection is dropped.
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .pool_idle_timeout(Duration::from_secs(60))
        .build(tls);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace))
}

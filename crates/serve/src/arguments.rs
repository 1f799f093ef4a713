//! The arguments of `jobgate serve`. The doctor also reads them from a Deployment.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::certs::Lifetimes;
use jobgate_cluster::Mode as ClaimsMode;

/// Arguments of `jobgate serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  jobgate serve --dev                                             on this machine, with a certificate made for this run
  jobgate serve --self-managed-certs --policy /policy/policy.yaml  in a cluster, with self-managed certificates
  jobgate serve --tls-cert /certs/tls.crt --tls-key /certs/tls.key --policy /policy/policy.yaml

Certificates, keys and the policy are read again when their content changes; the last good one stays in use.")]
pub struct Serve {
    /// Where reviews are served, over TLS [default: 0.0.0.0:10250; with --dev 127.0.0.1:10250]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,

    /// Where /healthz, /readyz and /metrics are served, in plain text [default: 0.0.0.0:8080; with --dev
    /// 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_listen: Option<SocketAddr>,

    /// The policy: a file, or one of default, audit, accelerators, strict
    #[arg(long, value_name = "FILE|NAME", default_value = "default", help_heading = "Judging")]
    pub policy: String,

    /// How to look up claims and training runtimes [default: cache in a cluster, off outside of one]
    #[arg(long, value_name = "MODE", value_enum, help_heading = "Judging")]
    pub claims: Option<ClaimsMode>,

    /// For tests: seconds for a review, and for all its look-ups of claims together
    #[arg(long, value_name = "SECONDS", hide = true)]
    pub patience_for_testing: Option<u64>,

    /// The certificate chain, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key", conflicts_with_all = ["dev", "self_managed_certs"], help_heading = "TLS")]
    pub tls_cert: Option<PathBuf>,

    /// The certificate's key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert", conflicts_with_all = ["dev", "self_managed_certs"], help_heading = "TLS")]
    pub tls_key: Option<PathBuf>,

    /// A name by which the API server calls the webhook, such as jobgate.jobgate.svc (repeatable)
    ///
    /// A certificate without it is rejected: that is an error at startup, and later the last good one stays
    /// in use. Without this option, a new certificate must have the names of the one in use; other names
    /// require a restart.
    #[arg(long, value_name = "NAME", requires = "tls_cert", value_parser = server_name, help_heading = "TLS")]
    pub tls_server_name: Vec<String>,

    /// Create and renew the certificates and their authority, and keep the caBundle of the webhook
    /// configurations up to date
    #[arg(long, conflicts_with = "dev", help_heading = "TLS")]
    pub self_managed_certs: bool,

    /// Which objects are managed.
    #[command(flatten)]
    pub managed: ManagedCerts,

    /// Serve localhost with a certificate made for this run, and print how to register it
    #[arg(long, help_heading = "TLS")]
    pub dev: bool,

    /// Accept only clients with a certificate signed by these authorities (PEM)
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub client_ca: Option<PathBuf>,

    /// Of the clients of --client-ca, accept only those with this name (repeatable)
    ///
    /// A DNS name or URI of the subjectAltName, or the common name, compared whole. Without it, every client
    /// of these authorities is accepted; a cluster's own authority signs certificates for every kubelet.
    #[arg(long, value_name = "NAME", requires = "client_ca", value_parser = clap::builder::NonEmptyStringValueParser::new(), help_heading = "TLS")]
    pub client_name: Vec<String>,

    /// Accept only clients that send one of the bearer tokens in this file
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub client_token_file: Option<PathBuf>,

    /// Offer HTTP/2 as well; an API server uses it only for webhooks on its own machine
    #[arg(long, help_heading = "TLS")]
    pub http2: bool,

    /// Reviews judged at the same time; more get 429 and Retry-After [default: 64]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub max_in_flight: Option<usize>,

    /// Open connections [default: 512]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub max_connections: Option<usize>,

    /// Open connections from one address [default: 256]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub max_connections_per_source: Option<usize>,

    /// Seconds to accept connections after SIGTERM, while the endpoint is removed [default: 10; with --dev 0]
    #[arg(long, value_name = "SECONDS", help_heading = "Limits")]
    pub drain_seconds: Option<u64>,

    /// What to log: error, warn, info, debug or trace, or a filter by module
    #[arg(
        long,
        value_name = "FILTER",
        default_value = "info",
        env = "JOBGATE_LOG",
        help_heading = "Logging"
    )]
    pub log: String,

    /// Log plain text instead of JSON
    #[arg(long, help_heading = "Logging")]
    pub log_text: bool,
}

/// Arguments of `jobgate serve --self-managed-certs`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Self-managed certificates")]
pub struct ManagedCerts {
    /// The Secret for the authority; it must exist, and may be empty
    #[arg(long, value_name = "NAME", default_value = "jobgate-tls", requires = "self_managed_certs")]
    pub secret_name: String,

    /// The namespace of the Secret and the Service [default: the pod's own]
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE", hide_env_values = true)]
    pub namespace: Option<String>,

    /// The Service that leads to the webhook
    #[arg(long, value_name = "NAME", default_value = "jobgate", requires = "self_managed_certs")]
    pub service_name: String,

    /// The MutatingWebhookConfiguration
    #[arg(long, value_name = "NAME", default_value = "jobgate", requires = "self_managed_certs")]
    pub mutating_configuration: String,

    /// The ValidatingWebhookConfiguration
    #[arg(long, value_name = "NAME", default_value = "jobgate", requires = "self_managed_certs")]
    pub validating_configuration: String,

    /// For tests: lifetimes of an authority and a certificate, the wait before an authority signs, and the
    /// wait after it last did, in seconds
    #[arg(long, value_name = "AUTHORITY,LEAF,SOAK,GRACE", value_parser = lifetimes, hide = true)]
    pub lifetimes_for_testing: Option<Lifetimes>,
}

/// Reads the name of a server: a DNS name or an address.
fn server_name(text: &str) -> Result<String, &'static str> {
    match rustls_pki_types::ServerName::try_from(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("expected a DNS name or an address, without a port"),
    }
}

/// Reads four numbers of seconds.
fn lifetimes(text: &str) -> Result<Lifetimes, &'static str> {
    let seconds: Result<Vec<u64>, _> = text.split(',').map(str::parse).collect();
    match seconds.as_deref() {
        Ok(&[authority, leaf, soak, grace]) => {
            let [authority, leaf, soak, grace] =
                [authority, leaf, soak, grace].map(std::time::Duration::from_secs);
            Ok(Lifetimes { authority, leaf, soak, grace, ..Lifetimes::default() })
        }
        _ => Err("expected four numbers of seconds such as 60,20,3,5"),
    }
}

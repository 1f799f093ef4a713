//! `jobgate serve`: the admission webhook.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tracing_subscriber::EnvFilter;

use super::{Exit, policy_named, today};
use crate::cluster::{self, Claims, Mode};
use crate::judge::policy::Policy;
use crate::judge::rule::Needs;
use crate::judge::rules::RuleSet;
use crate::k8s::names;
use crate::kinds::Kind;
use crate::kinds::registration::{self, Target};
use crate::serve::arguments::Serve;
use crate::serve::certs::{self, Managed, Names};
use crate::serve::server::certificate::{Authorities, Development, Identity, Tokens};
use crate::serve::server::log::{self, Format};
use crate::serve::server::reload::{self, Files, Follower};
use crate::serve::server::{Config, Limits, Metrics, Readiness, Server, stop};
use crate::serve::webhook::Webhook;

/// How often mounted files are read. The kubelet takes longer than this to update them.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);
/// The file with the namespace of the pod.
const NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// How long a thread waits for another long review before it ends and frees its memory.
const IDLE_THREAD: Duration = Duration::from_secs(1);
/// How often the size of the claim cache is written into the metrics.
const METRICS_INTERVAL: Duration = Duration::from_secs(5);

/// Runs the webhook until it is stopped.
///
/// # Errors
/// If it cannot start: a bad policy, certificate or address.
pub fn run(args: &Serve, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_keep_alive(IDLE_THREAD)
        .build()
        .context("start the threads that serve")?;
    runtime.block_on(serve(args, out))?;
    Ok(Exit::Clean)
}

async fn serve(args: &Serve, out: &mut dyn Write) -> anyhow::Result<()> {
    let metrics = Metrics::new();
    let filter = EnvFilter::try_new(&args.log)
        .with_context(|| format!("the log filter {:?} is not valid", args.log))?;
    let format = if args.log_text || args.dev { Format::Text } else { Format::Json };
    let _log = log::start(format, filter, &metrics)?;
    let stop = stop::on_signals().context("listen for signals")?;
    let readiness = Readiness::default();

    let policy = policy_named(&args.policy)?;
    let claims = claims(args, policy.rules(), &metrics, &readiness).await?;
    let webhook = Webhook::new(policy, claims, metrics.clone(), today);
    let _policy = follow_policy(&args.policy, &webhook, &metrics).await?;
    let mut kept: Vec<Follower> = Vec::new();
    let names = if args.self_managed_certs { Some(service_names(args)?) } else { None };
    let (identity, development) = identity(args, names.as_ref(), &metrics, &mut kept).await?;
    let _managed = match names {
        Some(names) => Some(manage(args, names, &identity, &metrics, &readiness).await?),
        None => None,
    };
    let clients = match &args.client_ca {
        Some(path) => {
            let authorities = Authorities::default().naming(args.client_name.clone());
            Some(keep(
                authorities
                    .follow(path.clone(), RELOAD_INTERVAL, &metrics)
                    .await
                    .context("read --client-ca")?,
                &mut kept,
            ))
        }
        None => None,
    };
    let tokens = match &args.client_token_file {
        Some(path) => Some(keep(
            Tokens::from_file(path.clone(), RELOAD_INTERVAL, &metrics)
                .await
                .context("read --client-token-file")?,
            &mut kept,
        )),
        None => None,
    };

    let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let any = |port| SocketAddr::from(([0, 0, 0, 0], port));
    let address = |port| if args.dev { local(port) } else { any(port) };
    let defaults = Limits::default();
    let limits = Limits {
        in_flight: args.max_in_flight.unwrap_or(defaults.in_flight),
        connections: args.max_connections.unwrap_or(defaults.connections),
        connections_per_source: args.max_connections_per_source.unwrap_or(defaults.connections_per_source),
        drain_accept: if args.dev {
            Duration::ZERO
        } else {
            args.drain_seconds.map_or(defaults.drain_accept, Duration::from_secs)
        },
        review: args.patience_for_testing.map_or(defaults.review, Duration::from_secs),
        ..defaults
    };
    let config = Config {
        address: args.listen.unwrap_or_else(|| address(10250)),
        probe_address: args.metrics_listen.unwrap_or_else(|| address(8080)),
        identity,
        clients,
        tokens,
        http2: args.http2,
        readiness,
        limits,
    };
    let server = Server::bind(config, metrics).await?;
    if let Some(development) = development {
        print_instructions(out, &server, &development).context("print how to register it")?;
    }
    server.run(webhook, stop).await;
    Ok(())
}

/// Starts look-ups of claims, in the given mode or the default one.
async fn claims(
    args: &Serve,
    rules: &RuleSet,
    metrics: &Metrics,
    readiness: &Readiness,
) -> anyhow::Result<Claims> {
    let mode = args.claims.unwrap_or_else(Mode::by_default);
    if mode == Mode::Off {
        tracing::info!(
            "claims are not looked up: the rule {} reports nothing (--claims cache enables it)",
            rules.names_needing(Needs::CLAIMS).replace('`', "")
        );
        return Ok(Claims::off());
    }
    let defaults = cluster::Settings::default();
    let settings = cluster::Settings {
        budget: args.patience_for_testing.map_or(defaults.budget, Duration::from_secs),
        ..defaults
    };
    let claims = Claims::with(
        mode,
        client().await.context("reach the API server for claims (--claims off needs none)")?,
        settings,
    );
    let counted = metrics.clone();
    claims.observe(move |source, result| counted.claim_lookup(source, result));
    let settled = Arc::new(AtomicBool::new(false));
    let waiting = (claims.clone(), settled.clone());
    tokio::spawn(async move {
        if !waiting.0.ready().await {
            tracing::warn!("the claims are not read yet; serving without them (unknown claims never deny)");
        }
        waiting.1.store(true, Ordering::Relaxed);
    });
    readiness.require("claims", move || {
        if settled.load(Ordering::Relaxed) { Ok(()) } else { Err("still being read".to_owned()) }
    });
    let (counted, watched) = (metrics.clone(), claims.clone());
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(METRICS_INTERVAL);
        loop {
            ticks.tick().await;
            let stats = watched.stats();
            counted.claim_cache(usize::try_from(stats.claims).unwrap_or(usize::MAX), stats.stale);
        }
    });
    Ok(claims)
}

/// Connects with the pod's service account in a cluster, and with the kubeconfig outside of one.
async fn client() -> Result<kube::Client, cluster::ClientError> {
    if cluster::in_cluster() {
        cluster::client_in_cluster()
    } else {
        Ok(cluster::connection(None, None).await?.client)
    }
}

/// Returns the names of the Service for which certificates are managed.
fn service_names(args: &Serve) -> anyhow::Result<Names> {
    let managed = &args.managed;
    let namespace = match &managed.namespace {
        Some(namespace) => namespace.clone(),
        None => std::fs::read_to_string(NAMESPACE)
            .map(|text| text.trim().to_owned())
            .context("the namespace is unknown; set --namespace")?,
    };
    Ok(Names::new(&managed.service_name, &namespace)?)
}

/// Starts to manage the certificates that `identity` serves.
async fn manage(
    args: &Serve,
    names: Names,
    identity: &Arc<Identity>,
    metrics: &Metrics,
    readiness: &Readiness,
) -> anyhow::Result<Managed> {
    let managed = &args.managed;
    for name in [&managed.secret_name, &managed.mutating_configuration, &managed.validating_configuration] {
        if let Some(why) = names::dns_subdomain(name).into_iter().next() {
            bail!("{name:?} is not the name of an object: {why}");
        }
    }
    let settings = certs::Settings {
        secret: managed.secret_name.clone(),
        mutating: managed.mutating_configuration.clone(),
        validating: managed.validating_configuration.clone(),
        lifetimes: managed.lifetimes_for_testing.unwrap_or_default(),
        ..certs::Settings::new(names)
    };
    let client = client().await.context("reach the API server for certificates")?;
    let managed = Managed::start(client, settings, identity.clone(), metrics.clone());
    readiness.require("ca-bundle", managed.readiness());
    Ok(managed)
}

/// Follows the policy's file, if it is one; after an error the last good policy stays in force.
async fn follow_policy(name: &str, webhook: &Webhook, metrics: &Metrics) -> anyhow::Result<Option<Follower>> {
    if crate::policies::builtin(name).is_some() {
        return Ok(None);
    }
    let (target, path) = (webhook.clone(), name.to_owned());
    let take = move |contents: &[Vec<u8>]| {
        let source = std::str::from_utf8(contents.first().map_or(&[][..], Vec::as_slice))?;
        target.set_policy(Policy::parse(source, &path)?);
        Ok(())
    };
    let files = Files { every: RELOAD_INTERVAL, ..Files::new("policy", [PathBuf::from(name)]) };
    Ok(Some(reload::follow(files, metrics, take).await?))
}

/// Loads the certificate, or creates one with `--dev`. `names` are those of the Service if certificates are
/// self-managed.
async fn identity(
    args: &Serve,
    names: Option<&Names>,
    metrics: &Metrics,
    kept: &mut Vec<Follower>,
) -> anyhow::Result<(Arc<Identity>, Option<Development>)> {
    match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => {
            let identity = Identity::empty(metrics).requiring(args.tls_server_name.clone());
            let loaded = identity.follow(certificate.clone(), key.clone(), RELOAD_INTERVAL).await;
            let loaded =
                loaded.with_context(|| format!("load the certificate {} and its key", show(certificate)))?;
            Ok((keep(loaded, kept), None))
        }
        _ if args.dev => {
            let development = Development::generate()?;
            let identity = Arc::new(Identity::empty(metrics));
            identity.replace(development.certificate.as_bytes(), development.key.as_bytes())?;
            Ok((identity, Some(development)))
        }
        _ if args.self_managed_certs => {
            let required = names.map(Names::server_name).into_iter().collect();
            Ok((Arc::new(Identity::empty(metrics).requiring(required)), None))
        }
        _ => bail!(
            "a certificate is required: --self-managed-certs in a cluster, --tls-cert and --tls-key, or --dev for development"
        ),
    }
}

fn keep<T>((thing, follower): (Arc<T>, Follower), kept: &mut Vec<Follower>) -> Arc<T> {
    kept.push(follower);
    thing
}

fn show(path: &Path) -> std::path::Display<'_> {
    path.display()
}

/// Prints how to call and register it, for `--dev`.
fn print_instructions(out: &mut dyn Write, server: &Server, development: &Development) -> anyhow::Result<()> {
    let url = format!("https://localhost:{}", server.address.port());
    let configurations =
        registration::configurations("jobgate-dev", &Target::Url(url.clone()), Some(&development.ca));
    writeln!(out, "# Jobgate serves {url} with a certificate made for this run.\n#")?;
    writeln!(out, "# Its authority (what goes into caBundle), as a file for curl:\n#")?;
    writeln!(out, "cat > jobgate-dev-ca.pem <<'EOF'\n{}EOF\n", development.ca)?;
    writeln!(out, "# One review, by hand (jobgate review gives the same answer without a server):\n#")?;
    writeln!(
        out,
        "curl --cacert jobgate-dev-ca.pem -H 'Content-Type: application/json' -d @review.json {url}/validate\n"
    )?;
    writeln!(
        out,
        "# For an API server on this machine, which then sends it every {}:\n#",
        Kind::registered_titles().join(", ")
    )?;
    writeln!(out, "kubectl apply -f - <<'EOF'")?;
    for configuration in configurations {
        writeln!(out, "{}", serde_json::to_string(&configuration)?)?;
    }
    writeln!(out, "EOF\n")?;
    writeln!(
        out,
        "# Metrics and readiness: http://{}/metrics, /readyz. Ctrl-C stops it; to take the configuration out again:\n#",
        server.probe_address
    )?;
    writeln!(out, "kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration jobgate-dev")?;
    out.flush()?;
    Ok(())
}

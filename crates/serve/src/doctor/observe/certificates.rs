//! The certificates served at the addresses in the configurations.

use futures::future::join_all;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::forward::{self, ForwardError};
use super::{Ask, MAX_PODS, handshake, port_named, running};
use crate::doctor::observations::{Observed, Seen, Served, Unread};
use jobgate_cluster::chain;
use jobgate_core::text::value::Value;

impl Ask<'_> {
    /// Reads the served certificates in TLS handshakes.
    pub(super) async fn served(&self, observed: &Observed, service: Option<&Value>) -> Vec<Served> {
        let mut served = Vec::new();
        let mut done: Vec<String> = Vec::new();
        for entry in observed.entries() {
            let Some(name) = entry.server_name() else { continue };
            if let Some(url) = entry.url() {
                let port = url.parse::<http::Uri>().ok().and_then(|uri| uri.port_u16()).unwrap_or(443);
                let at = format!("https://{name}:{port}");
                if !done.contains(&at) {
                    served.push(self.direct(at.clone(), &name, port, &name, false).await);
                    done.push(at);
                }
                continue;
            }
            let at = format!("{name}:{}", entry.port());
            if done.contains(&at) {
                continue;
            }
            done.push(at.clone());
            let spec = service.map(|service| &service["spec"]);
            if let Some(host) = spec
                .filter(|spec| spec["type"] == "ExternalName")
                .and_then(|spec| spec["externalName"].as_str())
            {
                served.push(
                    self.direct(format!("{host}:{}", entry.port()), host, entry.port(), &name, false).await,
                );
            } else if self.inside {
                served.push(self.direct(at, &name, entry.port(), &name, true).await);
            } else {
                let target = |port: &&Value| port["port"] == entry.port();
                let target = spec
                    .and_then(|spec| spec["ports"].as_array()?.iter().find(target))
                    .map(|port| &port["targetPort"]);
                let named = |port: &str| {
                    observed.deployment.known().and_then(|deployment| port_named(deployment, port))
                };
                let port = match target {
                    Some(Value::Number(number)) => {
                        number.as_u64().and_then(|number| u16::try_from(number).ok())
                    }
                    Some(Value::String(port)) => named(port),
                    _ => None,
                };
                let port = port.or_else(|| named("webhook")).unwrap_or(10250);
                let pods: Vec<&str> = running(observed).take(MAX_PODS).collect();
                served.extend(
                    join_all(
                        pods.into_iter()
                            .map(|pod| self.forwarded(&observed.place.namespace, pod, port, &name)),
                    )
                    .await,
                );
            }
        }
        served
    }

    /// Connects from here. `conclusive` is whether a failure means that the API server cannot connect either.
    async fn direct(&self, at: String, host: &str, port: u16, name: &str, conclusive: bool) -> Served {
        let deadline = Instant::now() + self.options.timeout;
        let shaken = match timeout_at(deadline, TcpStream::connect((host, port))).await {
            Ok(Ok(stream)) => handshake::chain(stream, name, deadline).await,
            Ok(Err(error)) => Err(format!("cannot connect from here: {}", chain(&error))),
            Err(_) => Err("cannot connect from here: no answer".to_owned()),
        };
        Served {
            at,
            conclusive,
            chain: shaken.map_or_else(|why| Seen::Unread(Unread::Failed(why)), Seen::Known),
        }
    }

    /// Connects to a pod through the API server.
    async fn forwarded(&self, namespace: &str, pod: &str, port: u16, name: &str) -> Served {
        let deadline = Instant::now() + self.options.timeout;
        let failed = |why: &str| Unread::Failed(format!("could not forward the port {port}: {why}"));
        let dialled = timeout_at(deadline, forward::dial(self.client, namespace, pod, port))
            .await
            .unwrap_or(Err(ForwardError::Silence));
        let shaken = match dialled {
            Ok((stream, trouble)) => tokio::select! {
                // An error message is worth more than a closed connection.
                biased;
                why = trouble => Err(failed(&why)),
                shaken = handshake::chain(stream, name, deadline) => shaken.map_err(Unread::Failed),
            },
            Err(ForwardError::Forbidden) => Err(Unread::Forbidden(format!(
                "create and get pods/portforward in the namespace {namespace}"
            ))),
            Err(error) => Err(failed(&chain(&error))),
        };
        Served {
            at: format!("pod {pod}"),
            conclusive: false,
            chain: shaken.map_or_else(Seen::Unread, Seen::Known),
        }
    }
}

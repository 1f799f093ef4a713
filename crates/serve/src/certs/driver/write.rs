//! The writes: the Secret, and the `caBundle` of both configurations.

use std::collections::BTreeSet;

use base64::Engine as _;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Builder;
use http::{Request, StatusCode};
use kube::client::Body;

use super::{Driver, data};
use crate::certs::authority::Root;
use crate::certs::plan::Step;
use crate::certs::publish::{FIELD_MANAGER, Kind, Published};
use crate::certs::state::{Change, ROTATE};
use jobgate_cluster::fetch::Failure;
use jobgate_core::text::value::Value;

impl Driver {
    async fn write(&self, request: Builder, media_type: &str, body: &Value) -> Result<(), Failure> {
        let request = request.header(ACCEPT, "application/json");
        let request = request.header(CONTENT_TYPE, format!("application/{media_type}"));
        self.send(request.body(Body::from(body.to_string().into_bytes()))).await.map(drop)
    }

    /// Changes the Secret, unless it has changed since it was read; returns whether to read it again.
    pub(super) async fn store(
        &mut self,
        step: Step,
        change: &Change,
        object: &Value,
        wrong: &mut BTreeSet<String>,
    ) -> bool {
        let uptime = self.began.elapsed();
        if !self.store_pace.allows(uptime) {
            self.metrics.certificate_error("pace");
            wrong.insert(format!(
                "something else keeps changing the Secret {}; waiting before writing it again",
                self.place()
            ));
            return false;
        }
        let mut object = object.clone();
        let mut entries = data(&object);
        change.apply(&mut entries);
        let encode = |value: &Vec<u8>| Value::from(base64::engine::general_purpose::STANDARD.encode(value));
        object["data"] = entries.iter().map(|(key, value)| (key.clone(), encode(value))).collect();
        if change.clear_rotate
            && let Some(annotations) =
                object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
        {
            annotations.remove(ROTATE);
        }
        let uri = format!("{}?fieldManager={FIELD_MANAGER}", self.settings.secret_uri());
        match self.write(Request::put(uri), "json", &object).await {
            Ok(()) => {
                self.store_pace.note(uptime);
                self.metrics.certificate_step(step.as_str());
                tracing::info!(
                    step = step.as_str(),
                    secret = self.place(),
                    "changed the Secret with the authority"
                );
                true
            }
            Err(Failure::Status(StatusCode::CONFLICT)) => {
                self.metrics.certificate_error("conflict");
                tracing::debug!("another replica changed the Secret first; reading it again");
                true
            }
            Err(failure) => {
                wrong.insert(format!("{} (update)", self.explain("the Secret", &self.place(), &failure)));
                false
            }
        }
    }

    /// Sets the bundle of a configuration; returns whether to look again.
    pub(super) async fn publish(
        &mut self,
        index: usize,
        kind: Kind,
        published: &Published,
        bundle: &[Root],
        wrong: &mut BTreeSet<String>,
    ) -> bool {
        let uptime = self.began.elapsed();
        let name = self.settings.configuration(kind).to_owned();
        if !self.paces[index].allows(uptime) {
            self.metrics.bundle_write("held");
            wrong.insert(format!(
                "something else keeps changing the caBundle of the {} {name}; waiting before setting it again",
                kind.name()
            ));
            return false;
        }
        let uri = format!("{}?fieldManager={FIELD_MANAGER}&force=true", self.settings.uri(kind));
        let body = published.apply(kind, &name, bundle);
        match self.write(Request::patch(uri), "apply-patch+yaml", &body).await {
            Ok(()) => {
                self.paces[index].note(uptime);
                self.metrics.bundle_write("success");
                let roots: Vec<String> = bundle.iter().map(Root::id).collect();
                tracing::info!(
                    configuration = name,
                    kind = kind.name(),
                    authorities = roots.join(","),
                    "set the caBundle"
                );
                true
            }
            Err(Failure::Status(StatusCode::CONFLICT)) => {
                self.metrics.bundle_write("conflict");
                true
            }
            Err(failure) => {
                self.metrics.bundle_write("failure");
                wrong.insert(format!("{} (patch)", self.explain(kind.name(), &name, &failure)));
                false
            }
        }
    }

    /// Gives up the ownership of fields that comes with setting a bundle.
    pub(super) async fn release(
        &mut self,
        index: usize,
        kind: Kind,
        published: &Published,
        wrong: &mut BTreeSet<String>,
    ) {
        let uptime = self.uptime();
        if !self.release_paces[index].allows(uptime) {
            return;
        }
        let uri = format!("{}?fieldManager={FIELD_MANAGER}", self.settings.uri(kind));
        match self.write(Request::patch(uri), "merge-patch+json", &published.release()).await {
            Ok(()) => self.release_paces[index].note(uptime),
            // There is a newer version; the next look reads it.
            Err(Failure::Status(StatusCode::CONFLICT)) => {}
            Err(failure) => drop(wrong.insert(format!(
                "{} (patch)",
                self.explain(kind.name(), self.settings.configuration(kind), &failure)
            ))),
        }
    }
}

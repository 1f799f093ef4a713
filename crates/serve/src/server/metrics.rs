//! The metrics of the server, for Prometheus.
//!
//! The caller makes one [`Metrics`] and clones it into everything that counts; `/metrics` prints it. Label
//! values are static words and the ids of the policy's rules, so a client cannot create a new time series.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelValue, EncodeMetric as _, LabelValueEncoder, text,
};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry, Unit};

use jobgate_core::admission::{Endpoint, Fault, Meta};
use jobgate_core::judge::rule::RuleId;

/// Upper bounds of the buckets of `jobgate_review_duration_seconds`. An ordinary answer takes well under a
/// millisecond; one that waits for a claim look-up takes up to the deadline.
const BUCKETS: [f64; 16] = [
    0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0,
    3.0,
];

/// The content type of [`Metrics::text`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The labels of one series: names and values.
type SeriesLabels<const N: usize> = [(&'static str, &'static str); N];
/// The labels of the findings: endpoint, rule and level.
type OfFindings = (SeriesLabels<1>, ([(&'static str, RuleLabel); 1], SeriesLabels<1>));
type Counters<const N: usize> = Family<SeriesLabels<N>, Counter>;
type SecondsGauge = Gauge<f64, AtomicU64>;

/// The id of a rule as a label: one of the policies in force, which no client can choose.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RuleLabel(RuleId);

impl EncodeLabelValue for RuleLabel {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        self.0.as_str().encode(encoder)
    }
}

/// Counters, gauges and histograms of one server. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<MetricsInner>);

/// Declares the metrics, and how each is registered: its name, its help, and for some a unit and an initial
/// value.
macro_rules! metrics {
    ($($field:ident: $type:ty = $register:ident($($argument:expr),+ $(,)?);)+) => {
        #[derive(Debug)]
        struct MetricsInner {
            registry: Registry,
            $($field: $type,)+
        }

        impl MetricsInner {
            fn registered(registry: &mut Registry) -> Self {
                Self { $($field: $register(registry, $($argument),+),)+ registry: Registry::default() }
            }
        }
    };
}

metrics! {
    reviews: Counters<3> = register("reviews", "Reviews answered");
    findings: Family<OfFindings, Counter> = register("findings", "Findings of the rules");
    unfilled: Counter = register(
        "unfilled_objects",
        "Objects that reached validate without what mutate fills in",
    );
    duration: Family<SeriesLabels<1>, Histogram> = register_in(
        Unit::Seconds,
        "review_duration",
        "Time from the complete headers of a review to its answer",
        Family::new_with_constructor(|| Histogram::new(BUCKETS)),
    );
    in_flight: Gauge = register("reviews_in_flight", "Reviews being evaluated");
    body_bytes: Gauge = register_in(
        Unit::Bytes,
        "body_buffered",
        "Memory taken by request bodies",
        Gauge::default(),
    );
    bodies_ended: Counters<1> = register(
        "bodies_ended",
        "Request bodies cut off: too slow, late (past the deadline of the review), or in too many pieces",
    );
    connections: Gauge = register("connections", "Open connections");
    refused: Counters<1> = register("connections_refused", "Connections closed on arrival");
    closed: Counters<1> = register("connections_closed", "Connections closed by the server, by cause");
    shed: Counters<1> = register("shed", "Requests answered 429 with Retry-After");
    trusted_children: Counter = register(
        "trusted_children",
        "Objects admitted because a trusted controller made them from a parent that was judged",
    );
    faults: Counters<1> = register(
        "faults",
        "Internal errors of the webhook; the requests were allowed with a warning",
    );
    malformed: Counters<2> = register(
        "malformed_reviews",
        "Reviews with invalid content; those with a uid were allowed with a warning",
    );
    rejected: Family<[(&'static str, u16); 1], Counter> = register(
        "requests_rejected",
        "Requests that are not reviews, by HTTP status",
    );
    handshake_errors: Counters<1> = register("handshake_errors", "Failed TLS handshakes");
    certificate_not_after: SecondsGauge = register(
        "certificate_not_after_timestamp_seconds",
        "When the first certificate of the served chain expires",
    );
    authority_not_after: SecondsGauge = register(
        "authority_not_after_timestamp_seconds",
        "When the authority of self-managed certificates expires",
    );
    certificate_steps: Counters<1> = register(
        "certificate_steps",
        "Steps in the life of self-managed certificates",
    );
    certificate_errors: Counters<1> = register(
        "certificate_errors",
        "Errors in managing certificates, and certificates rejected",
    );
    bundle_writes: Counters<1> = register(
        "bundle_writes",
        "Attempts to set the caBundle of a webhook configuration",
    );
    clock_ahead: Gauge = register_in(
        Unit::Seconds,
        "api_server_clock_ahead",
        "How far the API server's clock is ahead of this machine's; 0 within half a minute",
        Gauge::default(),
    );
    reloads: Counters<2> = register("reloads", "Attempts to load a changed file");
    policy: Family<[(&'static str, Arc<str>); 2], Gauge> = register("policy_info", "The policy in force");
    policy_loaded: SecondsGauge = register(
        "policy_loaded_timestamp_seconds",
        "When the policy in force was loaded",
    );
    lookups: Counters<2> = register("claim_lookups", "Look-ups of PersistentVolumeClaims");
    parent_lookups: Counters<1> = register(
        "parent_lookups",
        "Reviews of objects that a trusted controller made, by whether their parent was found",
    );
    claims: Gauge = register("claim_cache_claims", "Claims in the cache");
    claims_stale: Gauge = register(
        "claim_cache_stale",
        "Whether the cache has had no contact with the API server lately",
    );
    log_lines_dropped: Counter = register(
        "log_lines_dropped",
        "Log lines dropped because the log could not be written fast enough",
    );
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Makes metrics that are all zero.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(MetricsInner::new()))
    }

    /// Counts one answered review, and the time from its complete headers to the answer.
    pub fn review(&self, endpoint: Endpoint, meta: &Meta, took: Duration) {
        let verdict = meta.outcome.as_str();
        self.0
            .reviews
            .get_or_create(&[("endpoint", endpoint.as_str()), ("kind", meta.kind()), ("verdict", verdict)])
            .inc();
        self.0.duration.get_or_create(&[("endpoint", endpoint.as_str())]).observe(took.as_secs_f64());
        for ((rule, level), count) in &meta.findings {
            let rule = [("rule", RuleLabel(rule.clone()))];
            let labels = ([("endpoint", endpoint.as_str())], (rule, [("level", level.as_str())]));
            self.0.findings.get_or_create(&labels).inc_by(*count as u64);
        }
        if meta.is_unfilled {
            self.0.unfilled.inc();
        }
    }

    /// Counts an internal error, after which a request was allowed with a warning. The server itself reports
    /// `panic` and `deadline`, and `shed` for a review that was put off and not retried.
    pub(crate) fn fault(&self, cause: &'static str) {
        self.0.faults.get_or_create(&[("cause", cause)]).inc();
    }

    /// Counts a review that could not be judged or patched because of its content. Without authentication,
    /// anyone who reaches the port can raise this, so only causes from an
    /// [authenticated](super::Call::authenticated) caller, which is the API server, have alerts.
    pub(crate) fn malformed_review(&self, cause: &'static str, authenticated: bool) {
        self.0.malformed.get_or_create(&[("cause", cause), ("caller", caller(authenticated))]).inc();
    }

    /// Counts a review for which a parent was looked up. `result` is `found`, `absent` or `unknown`.
    pub(crate) fn parent_lookup(&self, result: &'static str) {
        self.0.parent_lookups.get_or_create(&[("result", result)]).inc();
    }

    /// Counts an object admitted because a trusted controller made it from a parent that was judged.
    pub(crate) fn trusted_child(&self) {
        self.0.trusted_children.inc();
    }

    /// Counts one look-up of a claim. `source` is `cache`, `live` or `none`; `result` is `found`, `absent`,
    /// or why the claim is unknown.
    pub fn claim_lookup(&self, source: &'static str, result: &'static str) {
        self.0.lookups.get_or_create(&[("source", source), ("result", result)]).inc();
    }

    /// Sets the number of claims in the cache, and whether it has had no contact with the API server lately.
    pub fn claim_cache(&self, claims: usize, stale: bool) {
        self.0.claims.set(i64::try_from(claims).unwrap_or(i64::MAX));
        self.0.claims_stale.set(i64::from(stale));
    }

    /// Sets the policy in force. `hash` identifies its content.
    pub fn policy(&self, name: &str, hash: &str) {
        self.0.policy.clear();
        self.0.policy.get_or_create(&[("name", name.into()), ("hash", hash.into())]).set(1);
        self.0.policy_loaded.set(unix_seconds(SystemTime::now()));
    }

    /// Counts one attempt to load the new content of a watched file (`certificate`, `policy`, …).
    pub fn reload(&self, file: &'static str, succeeded: bool) {
        self.0
            .reloads
            .get_or_create(&[("file", file), ("result", if succeeded { "success" } else { "failure" })])
            .inc();
    }

    /// Sets when the first certificate of the served chain expires.
    pub(crate) fn certificate_not_after(&self, time: SystemTime) {
        self.0.certificate_not_after.set(unix_seconds(time));
    }

    /// Sets when the authority that signs the served certificate expires.
    pub(crate) fn authority_not_after(&self, time: SystemTime) {
        self.0.authority_not_after.set(unix_seconds(time));
    }

    /// Counts a step in the life of self-managed certificates: one of `crate::certs::plan::Step`, or
    /// `sign` for a new served certificate.
    pub(crate) fn certificate_step(&self, step: &'static str) {
        self.0.certificate_steps.get_or_create(&[("step", step)]).inc();
    }

    /// Counts an error in managing certificates, or a rejected certificate
    /// ([`CertificateError::cause`](super::certificate::CertificateError::cause)), which is rejected again
    /// every few seconds.
    pub(crate) fn certificate_error(&self, cause: &'static str) {
        self.0.certificate_errors.get_or_create(&[("cause", cause)]).inc();
    }

    /// Counts an attempt to set the `caBundle` of a webhook configuration.
    pub(crate) fn bundle_write(&self, result: &'static str) {
        self.0.bundle_writes.get_or_create(&[("result", result)]).inc();
    }

    /// Sets by how many seconds the API server's clock is ahead of this machine's; 0 within half a minute.
    pub(crate) fn clock_ahead(&self, seconds: i64) {
        self.0.clock_ahead.set(seconds);
    }

    /// Returns every metric in the OpenMetrics text format, of content type [`CONTENT_TYPE`].
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::with_capacity(16 * 1024);
        if text::encode(&mut out, &self.0.registry).is_err() {
            // Writing to a String cannot fail, but a broken metric can: a partial scrape is better than none.
            let _ = out.write_str("# EOF\n");
        }
        out
    }

    pub(super) fn begin_review(&self) -> GaugeGuard {
        self.0.in_flight.inc();
        GaugeGuard(self.0.in_flight.clone())
    }

    pub(super) fn begin_connection(&self) -> GaugeGuard {
        self.0.connections.inc();
        GaugeGuard(self.0.connections.clone())
    }

    /// Returns the gauge of the memory that bodies take.
    pub(super) fn body_bytes(&self) -> Gauge {
        self.0.body_bytes.clone()
    }

    pub(super) fn body_ended(&self, cause: &'static str) {
        self.0.bodies_ended.get_or_create(&[("cause", cause)]).inc();
    }

    pub(super) fn connection_refused(&self, cause: &'static str) {
        self.0.refused.get_or_create(&[("cause", cause)]).inc();
    }

    pub(super) fn connection_closed(&self, cause: &'static str) {
        self.0.closed.get_or_create(&[("cause", cause)]).inc();
    }

    pub(super) fn shed(&self, cause: &'static str) {
        self.0.shed.get_or_create(&[("cause", cause)]).inc();
    }

    pub(super) fn rejected(&self, code: u16) {
        self.0.rejected.get_or_create(&[("code", code)]).inc();
    }

    pub(super) fn handshake_error(&self, cause: &'static str) {
        self.0.handshake_errors.get_or_create(&[("cause", cause)]).inc();
    }

    pub(super) fn log_lines_dropped(&self) -> Counter {
        self.0.log_lines_dropped.clone()
    }
}

/// Makes a metric that starts at zero, and registers it.
fn register<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// As [`register`], with a unit after the name.
fn register_in<M: Metric + Clone>(
    registry: &mut Registry,
    unit: Unit,
    name: &str,
    help: &str,
    metric: M,
) -> M {
    registry.register_with_unit(name, help, unit, metric.clone());
    metric
}

impl MetricsInner {
    fn new() -> Self {
        let registry = &mut Registry::with_prefix("jobgate");
        let inner = Self::registered(registry);
        registry.register(
            "build",
            "The running version",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        registry.register_collector(Box::new(Process));
        // Series that have alerts exist from the start: a counter that appears with its first event shows no
        // increase.
        for cause in Fault::OURS.map(Fault::as_str).into_iter().chain([super::deferrals::LOST]) {
            drop(inner.faults.get_or_create(&[("cause", cause)]));
        }
        for cause in Fault::NOT_OF_AN_API_SERVER.map(Fault::as_str) {
            drop(inner.malformed.get_or_create(&[("cause", cause), ("caller", caller(true))]));
        }
        for cause in ["in-flight", "evaluation", "memory", "memory-per-source", "memory-revoked"] {
            drop(inner.shed.get_or_create(&[("cause", cause)]));
        }
        for cause in ["slow", "late", "pieces"] {
            drop(inner.bodies_ended.get_or_create(&[("cause", cause)]));
        }
        Self { registry: std::mem::take(registry), ..inner }
    }
}

/// Counts one in a gauge until it is dropped.
#[derive(Debug)]
pub(super) struct GaugeGuard(Gauge);

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn caller(authenticated: bool) -> &'static str {
    if authenticated { "authenticated" } else { "anybody" }
}

fn unix_seconds(time: SystemTime) -> f64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    }
}

/// Memory and file descriptors of the process, read whenever metrics are printed; none without `/proc`.
#[derive(Debug)]
struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut gauge = |name: &str, help: &str, unit: Option<&Unit>, value: i64| {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, unit, gauge.metric_type())?)
        };
        if let Some(bytes) = resident_bytes() {
            gauge("process_resident_memory", "Resident memory", Some(&Unit::Bytes), bytes)?;
        }
        if let Some(count) =
            std::fs::read_dir("/proc/self/fd").ok().and_then(|entries| i64::try_from(entries.count()).ok())
        {
            gauge("process_open_fds", "Open file descriptors", None, count)?;
        }
        Ok(())
    }
}

fn resident_bytes() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<i64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jobgate_core::admission::Outcome;
    use jobgate_core::judge::finding::Level;
    use jobgate_core::kinds::Kind;
    use jobgate_core::text::value::Value;

    fn value(text: &str, series: &str) -> Option<f64> {
        text.lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
            .map(|value| value.parse().unwrap())
    }

    #[test]
    fn everything_counted_is_printed() {
        let metrics = Metrics::new();
        let findings = [((RuleId::new("deadline"), Level::Deny), 1)].into();
        let meta = Meta { kind: Some(Kind::JOB), outcome: Outcome::Denied, findings, ..Meta::default() };
        metrics.review(Endpoint::Validate, &meta, Duration::from_micros(70));
        metrics.review(Endpoint::Validate, &meta, Duration::from_micros(1500));
        metrics.review(Endpoint::Mutate, &meta, Duration::from_micros(70));
        metrics.fault("panic");
        metrics.claim_lookup("live", "absent");
        metrics.claim_cache(7, true);
        metrics.policy("default", "aa");
        metrics.policy("default", "bb");
        metrics.reload("policy", false);
        metrics.certificate_not_after(UNIX_EPOCH + Duration::from_secs(2_000_000_000));
        let held = metrics.begin_review();
        let text = metrics.text();
        assert_eq!(
            value(&text, r#"jobgate_reviews_total{endpoint="validate",kind="Job",verdict="denied"}"#),
            Some(2.0)
        );
        assert_eq!(
            value(&text, r#"jobgate_review_duration_seconds_bucket{le="0.0001",endpoint="validate"}"#),
            Some(1.0)
        );
        assert_eq!(value(&text, r#"jobgate_review_duration_seconds_count{endpoint="validate"}"#), Some(2.0));
        let findings = |endpoint: &str| {
            let labels = format!(r#"endpoint="{endpoint}",rule="deadline",level="deny""#);
            value(&text, &format!("jobgate_findings_total{{{labels}}}"))
        };
        assert_eq!(
            (findings("validate"), findings("mutate")),
            (Some(2.0), Some(1.0)),
            "both endpoints find the same"
        );
        assert_eq!(value(&text, r#"jobgate_faults_total{cause="panic"}"#), Some(1.0));
        assert_eq!(value(&text, r#"jobgate_faults_total{cause="deadline"}"#), Some(0.0));
        assert_eq!(value(&text, r#"jobgate_claim_lookups_total{source="live",result="absent"}"#), Some(1.0));
        assert_eq!(value(&text, "jobgate_claim_cache_stale"), Some(1.0));
        assert_eq!(value(&text, r#"jobgate_policy_info{name="default",hash="bb"}"#), Some(1.0));
        assert!(!text.contains(r#"hash="aa""#), "only one policy is in force");
        assert_eq!(value(&text, r#"jobgate_reloads_total{file="policy",result="failure"}"#), Some(1.0));
        assert_eq!(value(&text, "jobgate_certificate_not_after_timestamp_seconds"), Some(2e9));
        assert_eq!(value(&text, "jobgate_reviews_in_flight"), Some(1.0));
        drop(held);
        assert_eq!(value(&metrics.text(), "jobgate_reviews_in_flight"), Some(0.0));
        assert!(text.ends_with("# EOF\n"));
    }

    /// The name that a query uses, with its type and labels.
    type Listed = std::collections::BTreeMap<String, (String, Vec<String>)>;

    /// Returns what is printed.
    fn printed(text: &str) -> Listed {
        let mut printed = Listed::new();
        for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let (name, kind) = line.split_once(' ').unwrap();
            let suffix = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            let first = text
                .lines()
                .find(|line| {
                    line.starts_with(name)
                        && line.as_bytes().get(name.len()).is_some_and(|byte| b"{ _".contains(byte))
                })
                .unwrap();
            let mut labels: Vec<String> = first
                .split_once('{')
                .map(|(_, rest)| {
                    rest.split("\",").filter_map(|pair| pair.split_once("=\"")).collect::<Vec<_>>()
                })
                .unwrap_or_default()
                .into_iter()
                .map(|(label, _)| label.to_owned())
                .filter(|label| label != "le")
                .collect();
            labels.sort();
            printed.insert(format!("{name}{suffix}"), (kind.to_owned(), labels));
        }
        printed
    }

    /// Returns what a page lists in its tables of four columns: the metric, its type, its labels, its meaning.
    fn listed(page: &str) -> Listed {
        let code = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        let rows = page.lines().filter(|line| line.starts_with("| `jobgate_"));
        rows.map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            assert!(cells.len() >= 4 && cells[3].len() > 5, "{row}");
            let mut labels = code(cells[2]);
            labels.sort();
            (code(cells[0]).remove(0), (cells[1].to_owned(), labels))
        })
        .collect()
    }

    /// Whoever adds a metric is led here: to count it below, and to put it on the page.
    #[test]
    fn the_page_lists_every_metric() {
        let metrics = Metrics::new();
        let MetricsInner {
            registry: _,
            reviews: _,
            findings: _,
            unfilled: _,
            duration: _,
            in_flight: _,
            body_bytes: _,
            connections: _,
            refused: _,
            closed: _,
            shed: _,
            faults: _,
            malformed: _,
            trusted_children: _,
            rejected: _,
            bodies_ended: _,
            handshake_errors: _,
            certificate_not_after: _,
            authority_not_after: _,
            certificate_steps: _,
            certificate_errors: _,
            bundle_writes: _,
            clock_ahead: _,
            reloads: _,
            policy: _,
            policy_loaded: _,
            lookups: _,
            parent_lookups: _,
            claims: _,
            claims_stale: _,
            log_lines_dropped: _,
        } = &*metrics.0;
        // A metric with labels is printed only once it has counted something.
        let findings = [((RuleId::new("deadline"), Level::Deny), 1)].into();
        metrics.review(Endpoint::Mutate, &Meta { findings, ..Meta::default() }, Duration::ZERO);
        metrics.connection_refused("connections");
        metrics.connection_closed("idle");
        metrics.rejected(404);
        metrics.handshake_error("timeout");
        metrics.certificate_step("sign");
        metrics.certificate_error("missing");
        metrics.bundle_write("success");
        metrics.reload("policy", true);
        metrics.policy("default", "aa");
        metrics.claim_lookup("cache", "found");
        metrics.parent_lookup("found");
        let printed = printed(&metrics.text());
        // All fields but the registry, the version, and two of the process where there is a /proc.
        let process = if std::path::Path::new("/proc/self/status").exists() { 2 } else { 0 };
        assert_eq!(printed.len(), 30 + 1 + process, "{printed:#?}");

        let page = include_str!("../../../../docs/metrics.md");
        let mut listed = listed(page);
        if process == 0 {
            listed.retain(|name, _| !name.starts_with("jobgate_process_"));
        }
        assert_eq!(printed, listed, "docs/metrics.md");
        let mut values = Vec::new();
        values.extend(Fault::OURS.map(Fault::as_str));
        values.extend(Fault::NOT_OF_AN_API_SERVER.map(Fault::as_str));
        values.extend(crate::certs::plan::Step::ALL.map(crate::certs::plan::Step::as_str));
        for value in values {
            assert!(page.contains(&format!("`{value}`")), "docs/metrics.md does not name `{value}`");
        }
    }

    #[test]
    fn the_dashboard_shows_what_there_is() {
        let metrics = Metrics::new();
        metrics.review(
            Endpoint::Mutate,
            &Meta { findings: [((RuleId::new("deadline"), Level::Deny), 1)].into(), ..Meta::default() },
            Duration::ZERO,
        );
        metrics.claim_lookup("cache", "found");
        metrics.parent_lookup("found");
        metrics.policy("default", "aa");
        metrics.reload("policy", true);
        metrics.connection_refused("connections");
        metrics.connection_closed("idle");
        metrics.rejected(404);
        metrics.handshake_error("timeout");
        let text = metrics.text();
        let dashboard: Value = serde_json::from_str(include_str!(
            "../../../../deploy/components/dashboard/grafana-dashboard.json"
        ))
        .unwrap();
        let mut shown = std::collections::BTreeSet::new();
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let words =
                    target["expr"].as_str().unwrap().split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                shown.extend(words.filter(|word| word.starts_with("jobgate_")).map(str::to_owned));
            }
        }
        assert!(shown.len() > 15, "{shown:?}");
        for name in shown {
            assert!(
                text.lines()
                    .any(|line| line.starts_with(&format!("{name}{{"))
                        || line.starts_with(&format!("{name} "))),
                "{name} in {text}"
            );
        }
    }
}

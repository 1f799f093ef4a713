//! Jobgates that make their own certificates: what they do at the start, through rotations, and to those who
//! meddle.
//!
//! The long runs are the ordinary ones with more of them: `JOBGATE_ROUNDS=50` for starts,
//! `JOBGATE_ROTATIONS=5` for rotations, as in
//!
//! ```sh
//! JOBGATE_ROUNDS=50 JOBGATE_ROTATIONS=5 cargo test --test e2e own_certificates
//! ```

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jobgate::text::value::{Value, json};

use crate::api::{Api, time_until};
use crate::certificates::Authority;
use crate::installation::{Installation, bundles};
use crate::load::{Load, post, trusting};
use crate::manifests::{endless, job};
use crate::process::eventually;
use crate::scenario::{Place, Scenario};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new("own_certificates_five_at_once_make_one_authority", five_at_once).ungated(),
    Scenario::new("own_certificates_rotate_without_a_failed_review", rotation).ungated(),
    Scenario::new("own_certificates_bundle_is_healed", bundle_is_healed).ungated(),
    Scenario::new("own_certificates_secret_is_healed_without_a_failed_review", secret_is_healed).ungated(),
];

/// What is promised, and what a machine that does much else may take.
const HEALED: Duration = Duration::from_secs(2);
const BUSY: Duration = Duration::from_secs(20);

fn number(variable: &str, ordinary: usize) -> usize {
    std::env::var(variable)
        .map_or(ordinary, |text| text.parse().unwrap_or_else(|e| panic!("{variable}: {e}")))
}

fn five_at_once(place: &Place<'_>) {
    let api = Api::admin(place.cluster);
    let rounds = number("JOBGATE_ROUNDS", 2);
    let mut slowest = Duration::ZERO;
    for round in 0..rounds {
        let mut installation = Installation::of(place.cluster, "self-managed", "");
        installation.apply(&[]).ok();
        let made = api.values(&installation.secrets(), "jobgate-tls", "/data/ca.crt");
        let next = api.values(&installation.secrets(), "jobgate-tls", "/data/ca-next.crt");
        let began = Instant::now();
        installation.start(5, &["--claims=off"]);
        installation.wait_until_ready();
        slowest = slowest.max(began.elapsed());

        let stored = api.get(&installation.secret());
        let ca = stored["data"]["ca.crt"].as_str().expect("an authority");
        assert_eq!(
            stored["data"].as_object().expect("data").keys().collect::<Vec<_>>(),
            ["ca.crt", "ca.key"]
        );
        assert_eq!(
            (made.seen(), next.seen()),
            (vec![ca.to_owned()], Vec::new()),
            "round {round}: only one was ever written"
        );
        let pem = String::from_utf8(STANDARD.decode(ca).expect("base64")).expect("PEM");
        assert_eq!(pem.matches("BEGIN CERTIFICATE").count(), 1);
        assert_eq!(installation.bundles(&api), [pem.clone(), pem.clone()], "round {round}");
        let host = format!("jobgate.{}.svc", installation.name);
        for replica in &installation.replicas {
            let answer = api
                .wait(post(trusting(&pem), replica.port, &host, "/validate", "{}"))
                .expect("a leaf of the one authority");
            assert!(answer.starts_with("HTTP/1.1 400"), "no review: {answer}");
        }
        installation.kill();
        installation.delete();
    }
    println!(
        "{rounds} rounds of five: one authority in each; the slowest round was ready after {slowest:.1?}"
    );
}

fn rotation(place: &Place<'_>) {
    let api = Api::admin(place.cluster);
    let rotations = number("JOBGATE_ROTATIONS", 1);
    let mut installation = Installation::of(place.cluster, "self-managed", "");
    installation.must_answer();
    installation.apply(&[]).ok();
    let authorities = api.values(&installation.secrets(), "jobgate-tls", "/data/ca.crt");
    // Seconds: an authority 48, of which the first is cut short; a leaf 12, renewed after 8 at the latest; 5
    // published before it signs; 1 more after its last leaf. A replica that has looked often looks every 2.1
    // at the latest, so that a leaf has two more to be renewed in.
    installation.start(2, &["--claims=off", "--lifetimes-for-testing=48,12,5,1"]);
    installation.wait_until_ready();
    installation.judge(&place.namespace);
    let through = Load::through_the_api_server(&api, &place.namespace, 100);
    let direct = Load::direct(&api, &installation, 200);
    api.patch(
        &installation.secret(),
        "merge",
        &json!({"metadata": {"annotations": {"jobgate.dev/rotate": "now"}}}),
    );
    let steps =
        |step: &str| installation.count("jobgate_certificate_steps_total", &format!("step=\"{step}\""));
    #[allow(clippy::cast_precision_loss, reason = "nobody counts so far")]
    let wanted = rotations as f64;
    eventually(Duration::from_secs(90 + 60 * rotations as u64), || {
        let (promoted, retired) = (steps("promote"), steps("retire"));
        let least = installation
            .replicas
            .iter()
            .map(|replica| replica.count("jobgate_certificate_steps_total", "step=\"sign\""))
            .fold(99.0, f64::min);
        let done = promoted >= wanted
            && retired >= wanted
            && least >= 5.0 * wanted
            && direct.answered() >= 2000 * rotations;
        if done {
            Ok(())
        } else {
            Err(format!(
                "promoted {promoted}, retired {retired}, leaves {least}, reviews {}",
                direct.answered()
            ))
        }
    })
    .unwrap_or_else(|e| panic!("{e}\n{}", installation.logs()));
    let renewed = steps("sign");
    through.stop(&api).all_well("through the API server, two reviews each", 200 * rotations);
    direct.stop(&api).all_well("straight to the replicas, each over a new connection", 2000 * rotations);
    println!("{} authorities signed, and {renewed} leaves were served", authorities.seen().len());
    assert!(authorities.seen().len() > rotations);
    place.dry_run(&endless("after")).denied(&["deadline"]);
}

/// Prints how long it took, and fails the test if that is longer than any machine should take.
#[track_caller]
fn healed(what: &str, took: Result<Duration, String>) {
    let took = took.unwrap_or_else(|e| panic!("{what}: {e}"));
    println!(
        "{what}: healed after {} ms{}",
        took.as_millis(),
        if took > HEALED { ", which is more than 2 s: is this machine busy?" } else { "" }
    );
}

fn bundle_is_healed(place: &Place<'_>) {
    let api = Api::admin(place.cluster);
    let mut installation = Installation::of(place.cluster, "self-managed", "");
    installation.apply(&[]).ok();
    installation.start(2, &["--claims=off"]);
    installation.wait_until_ready();
    installation.judge(&place.namespace);
    let right = installation.bundles(&api).swap_remove(0);
    let foreign = Authority::new("foreign").certificate();
    // A replica writes one object six times a minute at most, the first publication and the last case among
    // them.
    for (kind, spared) in [("mutating", "foreign"), ("validating", "garbage")] {
        let path = installation.configuration(kind);
        let is_right = || {
            let now = bundles(&api.get(&path));
            if now.iter().all(|pem| *pem == right) { Ok(()) } else { Err(format!("{now:?}")) }
        };
        let set = |pem: &str| json!([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": STANDARD.encode(pem)}]);
        let cases = [
            ("blanked", json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}])),
            ("garbage", set("garbage")),
            ("foreign", set(&foreign)),
            ("foreign added", set(&format!("{foreign}{right}"))),
        ];
        for (what, change) in cases.into_iter().filter(|(what, _)| *what != spared) {
            let (status, said) = api.patch(&path, "json", &change);
            assert_eq!(status, 200, "{said}");
            healed(&format!("{kind}, {what}"), time_until(BUSY, is_right));
        }
    }
    let both = || {
        let now = installation.bundles(&api);
        if now.iter().all(|pem| *pem == right) { Ok(()) } else { Err(format!("{now:?}")) }
    };
    let kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations";
    place.cluster.admin.run(&["delete", kinds, &installation.name], "").ok();
    installation.apply(&[]).ok();
    healed("deleted and applied again", time_until(BUSY, both));
    for replica in &installation.replicas {
        replica.ready().expect("it stays ready");
    }
    installation.wait_until_judged(&place.namespace);
    place.create(&job("a", json!({}))).quiet();
}

fn secret_is_healed(place: &Place<'_>) {
    let api = Api::admin(place.cluster);
    let mut installation = Installation::of(place.cluster, "self-managed", "");
    installation.must_answer();
    installation.apply(&[]).ok();
    installation.start(2, &["--claims=off"]);
    installation.wait_until_ready();
    installation.judge(&place.namespace);
    let secret = installation.secret();
    let good = api.get(&secret)["data"].clone();
    let through = Load::through_the_api_server(&api, &place.namespace, 20);
    let direct = Load::direct(&api, &installation, 50);
    let back = || {
        let now = api.get(&secret)["data"].clone();
        let authority = |data: &Value| (data["ca.crt"].clone(), data["ca.key"].clone());
        if authority(&now) == authority(&good) { Ok(()) } else { Err("another authority".to_owned()) }
    };
    let key = crate::certificates::key_pair().0;
    // A replica writes the Secret six times a minute at most, the first authority and the last case among
    // them.
    for (what, patch) in [
        ("emptied", json!({"data": null})),
        ("key of another", json!({"data": {"ca.key": STANDARD.encode(&key)}})),
        ("garbage", json!({"data": {"ca.crt": STANDARD.encode("garbage")}})),
    ] {
        let (status, said) = api.patch(&secret, "merge", &patch);
        assert_eq!(status, 200, "{said}");
        healed(&format!("Secret, {what}"), time_until(BUSY, back));
    }
    // Deleted and made again, as by who takes it for a stray.
    place.cluster.admin.run(&["-n", &installation.name, "delete", "secret", "jobgate-tls"], "").ok();
    installation.apply(&[]).ok();
    healed("Secret, deleted and applied again", time_until(BUSY, back));
    std::thread::sleep(Duration::from_secs(1));
    through.stop(&api).all_well("through the API server, two reviews each", 20);
    direct.stop(&api).all_well("straight to the replicas", 50);
    for replica in &installation.replicas {
        replica.ready().expect("it stays ready");
    }
    let pem = String::from_utf8(STANDARD.decode(good["ca.crt"].as_str().expect("text")).expect("base64"))
        .expect("PEM");
    for bundle in installation.bundles(&api) {
        assert!(bundle.contains(&pem));
    }
}

//! Whose objects are not judged again: the account must be one of the policy, and the parent must be there.

use std::fs;

use jobgate::text::value::{Value, json};

use crate::gate::{Gate, Setup, unregister};
use crate::kubectl::Output;
use crate::manifests::{endless, over};
use crate::samples::sample;
use crate::scenario::{Needs, Place, Scenario, is};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new("a_forged_owner_is_found_out_by_every_look_up", forged)
        .needs(Needs::CustomResources)
        .ungated(),
    Scenario::new("an_operator_that_is_not_trusted_is_told_how_to_be", untrusted)
        .needs(Needs::CustomResources)
        .ungated(),
];

const USUAL: &str = "system:serviceaccount:default:kuberay-operator";
const OWN: &str = "system:serviceaccount:kuberay-system:kuberay-operator";

/// A Job without a deadline that says a RayJob made it.
fn child(uid: &str) -> Value {
    let owner = json!({
        "apiVersion": "ray.io/v1", "kind": "RayJob", "name": "parent", "uid": uid, "controller": true,
    });
    over(endless("child"), json!({"metadata": {"ownerReferences": [owner]}}))
}

/// Creates the RayJob, and returns its uid.
fn parent(place: &Place<'_>) -> String {
    place.create(&sample("rayjobs.ray.io").good("parent")).ok();
    place.stored("rayjob/parent")["metadata"]["uid"].as_str().expect("a uid").to_owned()
}

fn made(place: &Place<'_>, user: &str, object: &Value) -> Output {
    let arguments =
        ["create", "--dry-run=server", "--as", user, "--as-group=system:masters", "-o", "json", "-f", "-"];
    place.with_input(&arguments, &object.to_string())
}

fn forged(place: &Place<'_>) {
    const NOBODY: &str = "7d1f4bd2-9a52-4d5a-9f0f-0d5d7bb0c9d1";
    for (claims, user, looks) in [
        ("cache", "jobgate", true),
        ("live", "jobgate", true),
        ("live", "nobody", false),
        ("off", "jobgate", false),
    ] {
        let mut setup = Setup::only(&place.cluster.unique("trust"), &place.namespace);
        (setup.claims, setup.user) = (claims, user.to_owned());
        let gate = Gate::start(place.cluster, &setup).expect("start a Jobgate");
        place.kubectl(&["delete", "rayjob", "--all"]).ok();
        let before = made(place, USUAL, &child(NOBODY));
        let uid = parent(place);
        let (other, real) = (made(place, USUAL, &child(NOBODY)), made(place, USUAL, &child(&uid)));
        if looks {
            // Before there is one of the name, and while it is another one; the right one at once, although the
            // name was looked up a moment ago.
            for output in [before, other] {
                output.denied(&["deadline", USUAL, "does not exist with that uid"]);
            }
            real.quiet();
            assert_eq!(gate.count("jobgate_parent_lookups_total", "unknown"), 0.0);
        } else {
            for output in [before, other, real] {
                output.warns(&["jobgate trusts the maker of this object without a look at its"]);
            }
        }
        // A RayJob has no CronJobs, whoever says so.
        let cron_job = json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": child(&uid)["metadata"],
            "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": endless("child")["spec"]}},
        });
        made(place, USUAL, &cron_job).denied(&["deadline"]);
        unregister(place.cluster, &setup.name);
        drop(gate);
    }
}

fn untrusted(place: &Place<'_>) {
    let file = place.cluster.dir.path().join(format!("{}.policy.yaml", place.namespace));
    let policy = format!(
        "{{apiVersion: jobgate.dev/v1alpha1, kind: Policy, metadata: {{name: own}}, spec: {{trustedControllers: ['{OWN}']}}}}"
    );
    fs::write(&file, policy).expect("write a policy");
    for (policy, trusted) in [(None, false), (Some(file), true)] {
        let setup = Setup { policy, ..Setup::only(&place.cluster.unique("trust"), &place.namespace) };
        let gate = Gate::start(place.cluster, &setup).expect("start a Jobgate");
        place.kubectl(&["delete", "rayjob", "--all"]).ok();
        let uid = parent(place);
        let output = made(place, OWN, &child(&uid));
        if trusted {
            is(&output.quiet().json(), "/spec/ttlSecondsAfterFinished", Value::Null);
        } else {
            output.denied(&["deadline", &format!("`{OWN}`"), "`trustedControllers`", "RayJob `parent`"]);
        }
        unregister(place.cluster, &setup.name);
        drop(gate);
    }
}

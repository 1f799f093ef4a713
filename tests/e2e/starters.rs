//! Manifests to start from (`jobgate new`): the API server and Jobgate accept them as they are.

use http::Method;
use jobgate::kinds::Kind;
use jobgate::local::starter::{self, Asked, Spot};
use jobgate::text::yaml;

use crate::api::Api;
use crate::manifests::claim;
use crate::scenario::{Needs, Place, Scenario};

pub(crate) const SCENARIOS: &[Scenario] =
    &[Scenario::new("manifests_to_start_from_are_accepted", are_accepted).needs(Needs::CustomResources)];

fn are_accepted(place: &Place<'_>) {
    place.create(&claim("checkpoints", "ReadWriteMany")).ok();
    let api = Api::admin(place.cluster);
    let mut accepted = 0;
    for kind in starter::kinds() {
        for (nodes, gpus) in [(1, 0), (1, 1), (1, 8), (2, 1), (4, 8)] {
            for (claim, spot) in [
                (None, None),
                (Some("checkpoints"), None),
                (None, Some(Spot::Gke)),
                (Some("checkpoints"), Some(Spot::Aks)),
            ] {
                let asked = Asked {
                    name: "train".to_owned(),
                    namespace: None,
                    image: "registry.example.com/train:v1".to_owned(),
                    nodes,
                    gpus,
                    resource: "nvidia.com/gpu".to_owned(),
                    deadline: 86400,
                    claim: claim.map(str::to_owned),
                    spot,
                    queue: None,
                    schedule: "0 3 * * *".to_owned(),
                };
                // A kind may not have what is asked for.
                let Ok(text) = starter::manifest(kind, &asked) else { continue };
                for document in yaml::documents(text.as_bytes()) {
                    let object = document.expect("YAML").value;
                    if Kind::from_object(&object).is_none() {
                        let services = format!("/api/v1/namespaces/{}/services?dryRun=All", place.namespace);
                        let (status, answer) = api.send_as("anybody", Method::POST, &services, &object);
                        assert_eq!(status, 201, "{answer:#}\n{text}");
                        continue;
                    }
                    let (status, warnings, answer) =
                        api.create_without_effect(&place.namespace, &object, "Strict");
                    assert_eq!((status, warnings.as_str()), (201, ""), "{answer:#}\n{text}");
                    accepted += 1;
                }
            }
        }
    }
    assert!(accepted > 120, "{accepted}");
}

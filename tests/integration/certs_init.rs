//! `jobgate certs init`, and what is beside it for clusters with cert-manager: certificates by which an API
//! server will know the webhook.
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use jobgate::text::value::{Value, json};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

fn init(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jobgate"))
        .args(["certs", "init", "--out"])
        .arg(folder)
        .args(arguments)
        .output()
        .unwrap()
}

const FILES: [(&str, u32); 4] =
    [("ca.crt", 0o644), ("ca.key", 0o600), ("tls.crt", 0o644), ("tls.key", 0o600)];

fn read(folder: &Path) -> Vec<Vec<u8>> {
    FILES.map(|(name, _)| fs::read(folder.join(name)).unwrap()).to_vec()
}

#[test]
fn it_writes_what_can_be_used_and_nobody_else_can_read_the_keys() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("a new one");
    let output = init(&folder, &["--namespace", "batch", "--service", "gate", "--days", "30"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let mut names: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, FILES.map(|(name, _)| name), "and nothing else");
    for (name, mode) in FILES {
        assert_eq!(fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777, mode, "{name}");
    }
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains("gate.batch.svc") && said.contains("-n batch") && said.contains("{.webhooks[*].name}"),
        "{said}"
    );
    assert!(!said.contains("PRIVATE KEY"));
    verifies(&folder, "gate.batch.svc");
}

/// Two who know nothing of each other must be content: rustls, and OpenSSL where it is.
fn verifies(folder: &Path, name: &str) {
    let certificate = |file: &str| CertificateDer::from_pem_file(folder.join(file)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate("ca.crt")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    let verify = |name: &str| {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        verifier.verify_server_cert(&certificate("tls.crt"), &[], &name, &[], UnixTime::now()).map(drop)
    };
    verify(name).unwrap();
    verify("kubernetes.default.svc").unwrap_err();

    let openssl = |arguments: &[&str]| Command::new("openssl").args(arguments).current_dir(folder).output();
    let Ok(output) = openssl(&[
        "verify",
        "-x509_strict",
        "-purpose",
        "sslserver",
        "-verify_hostname",
        name,
        "-CAfile",
        "ca.crt",
        "tls.crt",
    ]) else {
        println!("skipped: OpenSSL is not asked, for it is not here");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let key = |arguments: &[&str]| openssl(arguments).unwrap().stdout;
    for pair in ["ca", "tls"] {
        let of_certificate = key(&["x509", "-in", &format!("{pair}.crt"), "-noout", "-pubkey"]);
        assert!(!of_certificate.is_empty());
        assert_eq!(of_certificate, key(&["pkey", "-in", &format!("{pair}.key"), "-pubout"]), "{pair}");
    }
    for (days, words) in [(29, "will not expire"), (31, "will expire")] {
        let seconds = (days * 86_400).to_string();
        let text = key(&["x509", "-in", "tls.crt", "-noout", "-checkend", &seconds]);
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn it_replaces_nothing_unless_told_to() {
    let folder = tempfile::tempdir().unwrap();
    for (name, _) in FILES {
        let alone = tempfile::tempdir().unwrap();
        fs::write(alone.path().join(name), "precious").unwrap();
        let output = init(alone.path(), &[]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(name) && said.contains("--force"), "{said}");
        assert_eq!(fs::read_dir(alone.path()).unwrap().count(), 1, "all or nothing");
        assert_eq!(fs::read(alone.path().join(name)).unwrap(), b"precious");
    }
    assert!(init(folder.path(), &[]).status.success());
    let first = read(folder.path());
    assert_eq!(init(folder.path(), &[]).status.code(), Some(2));
    assert_eq!(read(folder.path()), first);
    fs::set_permissions(folder.path().join("tls.key"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(init(folder.path(), &["--force", "--days", "30"]).status.success());
    assert!(read(folder.path()).iter().zip(&first).all(|(new, old)| new != old));
    assert_eq!(
        fs::metadata(folder.path().join("tls.key")).unwrap().permissions().mode() & 0o777,
        0o600,
        "it was wider before"
    );
    verifies(folder.path(), "jobgate.jobgate.svc");
}

#[test]
fn it_says_no_to_what_cannot_be() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in
        [&["--namespace", "No"][..], &["--service", "a.b"], &["--days", "0"], &["--days", "4000"]]
    {
        let output = init(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty());
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is written then");
    fs::write(folder.path().join("file"), "").unwrap();
    assert_eq!(init(&folder.path().join("file"), &[]).status.code(), Some(2));
}

fn documents(path: &str) -> Vec<Value> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    jobgate::text::yaml::documents(text.as_bytes()).map(|document| document.unwrap().value).collect()
}

/// cert-manager's own definitions are not here. What its documentation asks for is: an authority that issues,
/// issuers that exist, a Secret for each certificate, a life longer than its renewal, and the names by which
/// the API server calls the webhook.
#[test]
fn cert_manager_is_asked_for_a_chain_that_holds_together() {
    let objects = documents("deploy/components/cert-manager/certificates.yaml");
    let named = |kind: &str, name: &Value| {
        objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == *name)
    };
    let hours = |value: &Value| {
        value
            .as_str()
            .and_then(|text| text.strip_suffix('h'))
            .and_then(|text| text.parse::<u32>().ok())
            .unwrap()
    };
    let mut secrets = Vec::new();
    for object in &objects {
        assert_eq!(
            (&object["apiVersion"], &object["metadata"]["namespace"]),
            (&json!("cert-manager.io/v1"), &json!("jobgate"))
        );
        let spec = &object["spec"];
        if object["kind"] == "Issuer" {
            let authority = &spec["ca"]["secretName"];
            assert!(spec["selfSigned"].is_object() != authority.is_string(), "one kind of issuer");
            continue;
        }
        assert_eq!(object["kind"], "Certificate");
        assert_eq!(spec["issuerRef"]["kind"], "Issuer");
        let issuer =
            named("Issuer", &spec["issuerRef"]["name"]).unwrap_or_else(|| panic!("no such issuer: {object}"));
        assert_eq!(
            issuer["spec"]["selfSigned"].is_object(),
            spec["isCA"] == true,
            "an authority signs itself, and nothing else does"
        );
        assert!(hours(&spec["renewBefore"]) * 2 < hours(&spec["duration"]));
        // An authority that keeps its key goes on verifying what it signed before it was renewed.
        let rotation = if spec["isCA"] == true { "Never" } else { "Always" };
        assert_eq!(
            spec["privateKey"],
            json!({"algorithm": "ECDSA", "size": 256, "rotationPolicy": rotation})
        );
        secrets.push(spec["secretName"].clone());
    }
    let authorities: Vec<&Value> = objects
        .iter()
        .filter(|object| object["spec"]["isCA"] == true)
        .map(|object| &object["spec"]["secretName"])
        .collect();
    let issuing: Vec<&Value> = objects
        .iter()
        .map(|object| &object["spec"]["ca"]["secretName"])
        .filter(|name| name.is_string())
        .collect();
    assert_eq!(authorities, issuing, "what issues is the authority");
    let leaf = &named("Certificate", &json!("jobgate-tls")).unwrap()["spec"];
    assert_eq!(leaf["secretName"], "jobgate-tls", "what the Deployment mounts");
    let names: Vec<&str> =
        leaf["dnsNames"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(names, [jobgate::serve::certs::Names::new("jobgate", "jobgate").unwrap().server_name()]);
    assert_eq!(leaf["usages"], json!(["digital signature", "server auth"]));
    secrets.sort_by_key(Value::to_string);
    secrets.dedup();
    assert_eq!(secrets.len(), 2, "each certificate in a Secret of its own");
}

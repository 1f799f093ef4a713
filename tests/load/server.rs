//! The server under test: the real program as a child process, with a policy and a certificate in mounted
//! files.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::client::Resumption;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::Value;
use tempfile::TempDir;
use tokio_rustls::TlsConnector;

use crate::claims;
use crate::process::{Process, eventually, http_get, sum};

/// The name by which an API server calls the webhook: SNI and the certificate's name.
pub(crate) const NAME: &str = "jobgate.jobgate-system.svc";

/// The policy that is in the file unless a test wants another.
pub(crate) const POLICY: &str = include_str!("../../policies/default.yaml");

/// The defaults of `--max-connections` and `--max-connections-per-source`.
const CONNECTIONS: usize = 512;
const CONNECTIONS_PER_SOURCE: usize = 256;
const READY_TIMEOUT: Duration = Duration::from_secs(20);

/// Returns the program to test: `JOBGATE_BIN`, else the one that cargo built with the tests.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("JOBGATE_BIN").unwrap_or_else(|| OsString::from(env!("CARGO_BIN_EXE_jobgate"))).into()
}

/// Where a server is, for those who call it.
#[derive(Clone)]
pub(crate) struct Target {
    /// Where reviews are served.
    pub(crate) address: SocketAddr,
    /// Where health, readiness and metrics are served.
    pub(crate) probe: SocketAddr,
    /// What an API server trusts.
    pub(crate) tls: TlsConnector,
    /// The server has one part in so many of the connections that it has by default.
    pub(crate) scale: usize,
}

/// A running `jobgate serve`; it ends when this is dropped.
pub(crate) struct Server {
    process: Process,
    pub(crate) target: Target,
    pub(crate) certificates: Mount,
    pub(crate) policy: Mount,
    authority: Authority,
    _folder: TempDir,
}

impl Server {
    /// Starts it, with its connections cut down by `scale`, and waits until it is ready.
    ///
    /// # Errors
    /// If it does not start; with the end of its log.
    pub(crate) fn start(policy: &str, scale: usize) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let authority = Authority::generate()?;
        let certificates = Mount::new(folder.path().join("certificates"))?;
        certificates.write(&authority.leaf()?)?;
        let policies = Mount::new(folder.path().join("policies"))?;
        policies.write(&[("policy.yaml", policy.to_owned())])?;

        let kubeconfig = folder.path().join("kubeconfig");
        fs::write(&kubeconfig, claims::kubeconfig()).map_err(|e| e.to_string())?;

        let mut command = Command::new(program());
        command
            .args(["serve", "--listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0", "--claims=cache"])
            .env("KUBECONFIG", kubeconfig);
        command
            .arg("--tls-cert")
            .arg(certificates.path("tls.crt"))
            .arg("--tls-key")
            .arg(certificates.path("tls.key"));
        command.arg("--policy").arg(policies.path("policy.yaml")).env_remove("JOBGATE_LOG");
        if scale > 1 {
            command.arg(format!("--max-connections={}", CONNECTIONS / scale));
            command.arg(format!("--max-connections-per-source={}", CONNECTIONS_PER_SOURCE / scale));
        }
        let mut process = Process::start(&mut command, &folder.path().join("log"))?;

        let serving = eventually(READY_TIMEOUT, || {
            process.check()?;
            let lines: Vec<Value> =
                process.log().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            lines
                .into_iter()
                .find(|line| line["message"] == "serving" && line["probe_address"].is_string())
                .ok_or_else(|| process.log())
        })?;
        let address = |key: &str| {
            serving[key]
                .as_str()
                .and_then(|text| text.parse().ok())
                .ok_or_else(|| format!("no {key} in {serving}"))
        };
        let (address, probe): (SocketAddr, SocketAddr) = (address("address")?, address("probe_address")?);
        eventually(READY_TIMEOUT, || http_get(probe.port(), "/readyz"))?;
        let target = Target { address, probe, tls: authority.client()?, scale };
        Ok(Self { process, target, certificates, policy: policies, authority, _folder: folder })
    }

    /// Mounts a new certificate of the same authority for the same names.
    pub(crate) fn renew_certificate(&self) -> Result<(), String> {
        self.certificates.write(&self.authority.leaf()?)
    }

    /// Sums the series of a counter that have a label, such as `result="success"`; all of them if it is
    /// empty.
    pub(crate) fn counter(&self, name: &str, label: &str) -> Result<f64, String> {
        Ok(sum(&http_get(self.target.probe.port(), "/metrics")?, name, label))
    }

    /// Returns the id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns a size of the process by its name in `/proc/PID/status`, in KiB; 0 once the process has ended.
    pub(crate) fn memory(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap_or_default();
        let size = status.lines().find_map(|line| {
            line.strip_prefix(name)?.strip_prefix(':')?.split_whitespace().next()?.parse().ok()
        });
        size.unwrap_or_default()
    }

    /// Returns how many file descriptors the process has open.
    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.process.id())).map_or(0, Iterator::count)
    }

    /// Fails with the end of the log if the process has ended.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        self.process.check()
    }

    /// Ends the process at once, as the kernel does when memory is short.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }
}

/// A folder as the kubelet mounts it: files are links into `..data`, which is a link to a folder that is
/// swapped as a whole.
pub(crate) struct Mount {
    folder: PathBuf,
}

impl Mount {
    fn new(folder: PathBuf) -> Result<Self, String> {
        fs::create_dir(&folder).map_err(|e| format!("create {}: {e}", folder.display()))?;
        Ok(Self { folder })
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// Replaces all files at once.
    pub(crate) fn write(&self, files: &[(&str, String)]) -> Result<(), String> {
        self.swap(files).map_err(|e| format!("write into {}: {e}", self.folder.display()))
    }

    fn swap(&self, files: &[(&str, String)]) -> std::io::Result<()> {
        let data = self.folder.join("..data");
        let old = fs::read_link(&data).ok();
        let number = old
            .as_deref()
            .and_then(Path::to_str)
            .and_then(|name| name.trim_start_matches('.').parse::<u64>().ok())
            .unwrap_or_default();
        let name = format!("..{}", number + 1);
        fs::create_dir(self.folder.join(&name))?;
        for (file, contents) in files {
            fs::write(self.folder.join(&name).join(file), contents)?;
        }
        symlink(&name, self.folder.join("..next"))?;
        fs::rename(self.folder.join("..next"), data)?;
        match old {
            Some(old) => fs::remove_dir_all(self.folder.join(old)),
            None => files
                .iter()
                .try_for_each(|(file, _)| symlink(Path::new("..data").join(file), self.path(file))),
        }
    }
}

/// An authority that makes certificates for the webhook's Service.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn generate() -> Result<Self, String> {
        let make = || -> Result<Self, rcgen::Error> {
            let mut params = params(Vec::new(), "authority of the load test")?;
            params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
            let key = KeyPair::generate()?;
            let pem = params.self_signed(&key)?.pem();
            Ok(Self { pem, issuer: Issuer::new(params, key) })
        };
        make().map_err(|e| format!("make an authority: {e}"))
    }

    /// Returns the files of a new certificate.
    fn leaf(&self) -> Result<[(&'static str, String); 2], String> {
        let make = || -> Result<[(&'static str, String); 2], rcgen::Error> {
            let mut params = params(vec![NAME.to_owned(), format!("{NAME}.cluster.local")], NAME)?;
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            params.use_authority_key_identifier_extension = true;
            let key = KeyPair::generate()?;
            let certificate = params.signed_by(&key, &self.issuer)?;
            Ok([("tls.crt", certificate.pem()), ("tls.key", key.serialize_pem())])
        };
        make().map_err(|e| format!("make a certificate: {e}"))
    }

    /// Returns a client that trusts this authority alone. Like an API server it does not resume sessions.
    fn client(&self) -> Result<TlsConnector, String> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.pem.as_bytes()).map_err(|e| e.to_string())?)
            .map_err(|e| e.to_string())?;
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(|e| e.to_string())?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.resumption = Resumption::disabled();
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

fn params(names: Vec<String>, name: &str) -> Result<CertificateParams, rcgen::Error> {
    const DAY: Duration = Duration::from_secs(86_400);
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, name);
    let now = SystemTime::now();
    (params.not_before, params.not_after) = ((now - DAY).into(), (now + 30 * DAY).into());
    Ok(params)
}

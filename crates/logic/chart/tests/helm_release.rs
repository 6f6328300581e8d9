//! Records of releases are Helm's: it reads ours, and we read its.
//!
//! Helm talks to a server of ours that keeps Secrets and knows nothing else of Kubernetes.

#[path = "real/helm.rs"]
mod real;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use liqo_chart::{Chart, Overrides, Release, Status, Target, Values, render};
use serde_json::{Value, json};

#[test]
fn helm_reads_what_we_record() {
    let chart = Chart::embedded().unwrap();
    let mut overrides = Overrides::default();
    overrides.set("discovery.config.clusterName=rome").unwrap();
    let id = "discovery.config.clusterIDOverride=41543714-6e17-4c7b-9bc9-70de7f7ae64f";
    overrides.set(id).unwrap();
    let values = Values::new(&chart, &overrides).unwrap();
    let target = Target::new(real::KUBERNETES);
    let rendered = render(&chart, &values, &target).unwrap();
    let now = Timestamp::from_second(1_700_000_000).unwrap();
    let release = Release::new(&chart, &values, &rendered, &target, Status::Deployed, now).unwrap();
    let record = release.encode(now).unwrap();
    let server = Server::start().unwrap();
    server.keep(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": record.name, "namespace": "liqo", "labels": record.labels},
        "type": record.kind,
        "data": {"release": STANDARD.encode(&record.payload)},
    }));

    let list: Value = serde_json::from_str(&server.helm(&["list", "-o", "json"]).unwrap()).unwrap();
    assert_eq!(list[0]["name"], "liqo");
    assert_eq!(list[0]["status"], "deployed");
    assert_eq!(list[0]["chart"], "liqo-v0.8.3");
    let given = server.helm(&["get", "values", "liqo", "-o", "json"]).unwrap();
    assert_eq!(&serde_json::from_str::<Value>(&given).unwrap(), values.given());
    let all = server.helm(&["get", "values", "liqo", "--all", "-o", "json"]).unwrap();
    assert_eq!(&serde_json::from_str::<Value>(&all).unwrap(), values.all());
    let manifest = server.helm(&["get", "manifest", "liqo"]).unwrap();
    assert_eq!(manifest.trim(), rendered.manifest().trim());
    let hooks = server.helm(&["get", "hooks", "liqo"]).unwrap();
    assert_eq!(hooks.matches("# Source: ").count(), rendered.hooks.len());
    let notes = server.helm(&["get", "notes", "liqo"]).unwrap();
    assert!(notes.contains(rendered.notes.trim()), "{notes}");
}

#[test]
fn we_read_what_helm_records() {
    let chart = tempfile::tempdir().unwrap();
    fs::create_dir(chart.path().join("templates")).unwrap();
    for (name, text) in [
        ("Chart.yaml", "apiVersion: v2\nname: small\nversion: 1.2.3\nappVersion: v1\n"),
        ("values.yaml", "a: 1\nb: two\n"),
        ("templates/NOTES.txt", "It is {{ .Values.b }}."),
    ] {
        fs::write(chart.path().join(name), text).unwrap();
    }
    let server = Server::start().unwrap();

    let path = chart.path().to_string_lossy().into_owned();
    server.helm(&["install", "small", &path, "--set", "b=three"]).unwrap();

    let written = server.written();
    let release = Release::decode(payload(&written).unwrap()).unwrap();
    assert_eq!(release.name, "small");
    assert_eq!((release.version, release.namespace.as_str()), (1, "liqo"));
    assert_eq!(release.info.status, Status::Deployed);
    assert_eq!(release.info.notes, "It is three.");
    assert!(release.info.first_deployed.is_some() && release.info.deleted.is_none());
    assert_eq!(release.config, json!({"b": "three"}));
    assert_eq!(release.metadata().unwrap().version, "1.2.3");
    assert_eq!(release.chart["values"], json!({"a": 1, "b": "two"}));
    let record = release.encode(Timestamp::UNIX_EPOCH).unwrap();
    for word in record.labels.keys().chain([&record.name, &record.kind.to_owned()]) {
        let known = written.windows(word.len()).any(|part| part == word.as_bytes());
        assert!(known, "Helm does not write {word}");
    }
    assert_eq!(Release::decode(record.payload.as_bytes()).unwrap(), release);
}

/// The payload in a Secret as Helm sends it, which is not JSON: the text that gzip makes begins so.
fn payload(written: &[u8]) -> Option<&[u8]> {
    let start = written.windows(4).position(|part| part == b"H4sI")?;
    let text = written.get(start..)?;
    let is_text = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    let end = text.iter().position(|byte| !is_text(byte)).unwrap_or(text.len());
    // What follows begins with the number of a field, which no text contains.
    text.get(..end)
}

/// What the server keeps: the Secrets it lists, and what was written last.
#[derive(Default)]
struct Store {
    secrets: BTreeMap<String, Value>,
    written: Vec<u8>,
}

type Secrets = Arc<Mutex<Store>>;

/// As much of an API server as Helm needs to keep its records.
struct Server {
    address: String,
    secrets: Secrets,
}

impl Server {
    fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = format!("http://{}", listener.local_addr()?);
        let secrets = Secrets::default();
        let kept = Arc::clone(&secrets);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                thread::spawn(move || serve(stream, &kept));
            }
        });
        Ok(Self { address, secrets })
    }

    fn helm(&self, arguments: &[&str]) -> Result<String> {
        let arguments = [arguments, &["--namespace", "liqo"]].concat();
        let output = real::helm(Some(&self.address), &arguments)?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        anyhow::ensure!(output.status.success(), "helm {arguments:?}: {errors}");
        Ok(String::from_utf8(output.stdout)?)
    }

    fn keep(&self, secret: Value) {
        let name = secret["metadata"]["name"].as_str().expect("it has a name").to_owned();
        self.secrets.lock().expect("nobody panicked").secrets.insert(name, secret);
    }

    fn written(&self) -> Vec<u8> {
        self.secrets.lock().expect("nobody panicked").written.clone()
    }
}

/// Answers one request and closes the connection.
fn serve(mut stream: TcpStream, secrets: &Secrets) -> Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let method = words.next().context("a method")?.to_owned();
    let path = words.next().context("a path")?.to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let (status, answer) = answer(&method, &path, &body, secrets);
    let text = answer.to_string();
    write!(
        stream,
        "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{text}",
        text.len()
    )?;
    Ok(())
}

fn answer(method: &str, path: &str, body: &[u8], secrets: &Secrets) -> (u16, Value) {
    const SECRETS: &str = "/api/v1/namespaces/liqo/secrets";
    let mut store = secrets.lock().expect("nobody panicked");
    let path = path.split('?').next().unwrap_or_default();
    match (method, path) {
        ("GET", "/version") => {
            (200, json!({"major": "1", "minor": "34", "gitVersion": real::KUBERNETES}))
        }
        ("GET", "/api") => (200, json!({"kind": "APIVersions", "versions": ["v1"]})),
        ("GET", "/apis") => (200, json!({"kind": "APIGroupList", "groups": []})),
        ("GET", "/api/v1") => {
            (200, json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": []}))
        }
        ("GET", SECRETS) => {
            let items: Vec<&Value> = store.secrets.values().collect();
            (200, json!({"kind": "SecretList", "apiVersion": "v1", "items": items}))
        }
        ("POST" | "PUT", _) if path.starts_with(SECRETS) => {
            store.written = body.to_vec();
            (200, json!({"kind": "Secret", "apiVersion": "v1"}))
        }
        ("GET", path) if path.starts_with(SECRETS) => {
            let name = path.rsplit('/').next().unwrap_or_default();
            store.secrets.get(name).map_or_else(not_found, |secret| (200, secret.clone()))
        }
        _ => not_found(),
    }
}

fn not_found() -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
        "reason": "NotFound", "code": 404});
    (404, status)
}

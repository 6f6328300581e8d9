//! Our rendering is Helm's: the same objects in the same order, whatever the values.

#[path = "real/helm.rs"]
mod real;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::{Result, ensure};
use liqo_chart::{Chart, Overrides, Rendered, Target, Values, render};
use serde_json::Value;

use real::{HOME, KUBERNETES};

const IDENTITY: &str = "
discovery:
  config: {clusterName: rome, clusterIDOverride: 41543714-6e17-4c7b-9bc9-70de7f7ae64f}
";

/// Values by what they are about: a file, and expressions of `--set`.
const CASES: &[(&str, &str, &[&str])] = &[
    ("defaults", "", &[]),
    (
        "high availability",
        "common: {affinity: {nodeAffinity: {}}, nodeSelector: {disk: fast}}",
        &["controllerManager.replicas=2", "gateway.replicas=2"],
    ),
    (
        "own anti-affinity",
        "common: {affinity: {podAntiAffinity: {}}, tolerations: [{key: a, operator: Exists}]}",
        &["gateway.replicas=3"],
    ),
    (
        "another network",
        "networking: {internal: false, reflectIPs: false}",
        &["virtualKubelet.extra.args={--node-check-network=true,--v=4}"],
    ),
    (
        "external address manager",
        "networkManager: {externalIPAM: {enabled: true, url: 'ipam.example:6000'}}",
        &[],
    ),
    ("node ports", "", &["auth.service.type=NodePort", "gateway.service.type=NodePort"]),
    (
        "metrics",
        "
gateway: {metrics: {enabled: true, serviceMonitor: {enabled: true, interval: 15s, labels: {a: b}}}}
virtualKubelet: {metrics: {enabled: true, podMonitor: {enabled: true, scrapeTimeout: 5s}}}
",
        &["gateway.metrics.port=6000"],
    ),
    ("no storage", "storage: {enable: no}", &[]),
    ("another storage class", "", &["storage.virtualStorageClassName=far,storage.realStorageClassName=x"]),
    (
        "plain HTTP behind an Ingress",
        "auth: {tls: false, ingress: {enable: true, host: auth.example, class: nginx, port: 8443}}",
        &[r"auth.ingress.annotations.nginx\.ingress/x=y"],
    ),
    (
        "labels and annotations",
        "
controllerManager: {pod: {labels: {team: a}, annotations: {note: 'yes: \"quoted\"', empty: ''}}}
auth: {service: {labels: {x: 'true'}, annotations: {k: '1', \"multi\": \"a\\nb\"}}}
gateway: {service: {labels: {x: z}}, pod: {labels: {\"a/b\": c}}}
virtualKubelet: {extra: {labels: {a: b, c: d}, annotations: {e: f}}, virtualNode: {extra: {labels: {g: h}}}}
discovery: {config: {clusterLabels: {region: north, provider: kind}}}
",
        &[],
    ),
    (
        "networks",
        "networkManager: {config: {podCIDR: 10.0.0.0/16, serviceCIDR: 10.1.0.0/16}}",
        &[
            "networkManager.config.reservedSubnets={10.2.0.0/16,10.3.0.0/16}",
            "networkManager.config.additionalPools[0]=10.4.0.0/16",
        ],
    ),
    (
        "more arguments and resources",
        "
gateway: {pod: {extraArgs: [--v=5], resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 0.5}}}}
route: {pod: {extraArgs: [--route.vxlan-vtep-port=5050]}}
crdReplicator: {pod: {resources: {requests: null}}}
uninstaller: {pod: {extraArgs: ['--a', 'b c']}}
virtualKubelet: {extra: {resources: {limits: {cpu: 2}, requests: {memory: 64Mi}}}}
controllerManager: {config: {enableResourceEnforcement: true, enableNodeFailureController: true}}
",
        &["controllerManager.config.resourcePluginAddress=plugin:1", "networkConfig.mtu=1400"],
    ),
    ("no metric agent", "metricAgent: {enable: false}", &["proxy.config.listeningPort=8200"]),
    (
        "AWS",
        "awsConfig: {accessKeyId: key, secretAccessKey: secret, region: r, clusterName: c}",
        &["apiServer.address=https://api.example,apiServer.trustedCA=true"],
    ),
    ("OpenShift", "openshiftConfig: {enable: true, virtualKubeletSCCs: [anyuid, own]}", &[]),
    (
        "images and names",
        "image: {registry: images.example, repository: a/b}",
        &[
            "tag=v1.2.3",
            "nameOverride=far",
            "proxy.imageName=other/proxy:v9",
            "auth.imageName=other/auth",
            "pullPolicy=Always",
        ],
    ),
    (
        "overrides of addresses",
        "",
        &[
            "gateway.config.addressOverride=1.2.3.4,gateway.config.portOverride=30000",
            "auth.config.addressOverride=auth.example,auth.config.portOverride=8443",
            "controllerManager.config.offerUpdateThresholdPercentage=0",
        ],
    ),
];

#[test]
fn objects_are_those_of_helm_in_the_same_order() {
    for (about, file, sets) in CASES {
        let ours = ours(file, sets).unwrap().0;
        let helm = manifest(file, sets).unwrap();

        let names = |objects: &[Value]| -> Vec<String> { objects.iter().map(name).collect() };
        let all = ours.documents.iter().chain(ours.hooks.iter().map(|hook| &hook.document));
        let all: Vec<Value> = all.map(|document| document.object.clone()).collect();
        assert_eq!(names(&all), names(&helm), "{about}");
        for (ours, helm) in all.iter().zip(&helm) {
            assert_eq!(ours, helm, "{about}: {}", name(ours));
        }
    }
}

#[test]
fn rendering_twice_gives_the_same_text() {
    for (_, file, sets) in CASES {
        assert_eq!(ours(file, sets).unwrap().0, ours(file, sets).unwrap().0);
    }
}

#[test]
fn only_virtual_kubelets_ask_for_addresses_unless_told_otherwise() {
    let policies = |sets: &[&str]| -> Vec<Value> {
        let documents = ours("", sets).unwrap().0.documents.into_iter();
        let objects = documents.map(|document| document.object);
        objects.filter(|object| object["kind"] == "NetworkPolicy").collect()
    };
    let policy = &policies(&[])[0]["spec"];
    assert_eq!(policy["podSelector"]["matchLabels"]["app.kubernetes.io/name"], "network-manager");
    let ports = |rule: &Value| rule["ports"].to_string().contains("6000");
    let rules: Vec<&Value> = policy["ingress"].as_array().unwrap().iter().collect();
    let asking: Vec<&&Value> = rules.iter().filter(|rule| ports(rule)).collect();
    assert_eq!(asking.len(), 1, "{policy}");
    let from = asking[0]["from"].as_array().unwrap();
    assert_eq!(from.len(), 1, "{policy}");
    let tenants = from[0]["namespaceSelector"].to_string();
    assert!(tenants.contains("discovery.liqo.io/tenant-namespace"), "{tenants}");
    let callers = &from[0]["podSelector"]["matchLabels"]["app.kubernetes.io/name"];
    assert_eq!(callers, "virtual-kubelet");
    assert!(policies(&["networkManager.restrictCallers=false"]).is_empty());
}

#[test]
fn helm_has_nothing_to_say_about_the_chart() {
    for values in ["", IDENTITY] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("values.yaml");
        fs::write(&file, values).unwrap();

        let options = ["--strict", "--quiet", "-f", &file.to_string_lossy()];
        let output = helm(&HOME.join("charts/liqo"), &["lint"], &options).unwrap();

        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}");
        assert!(!text.contains("[WARNING]") && !text.contains("[ERROR]"), "{text}");
    }
}

#[test]
fn what_we_refuse_helm_refuses_too() {
    for set in [
        "gateway.replicas=many",
        "gateway.service.type=Nodeport",
        "auth.tls=no",
        "storage.enabled=true",
        "webhook.port=70000",
        "discovery.config.clusterName=Rome",
        "virtualKubelet.extra.resources.limits.gpu=1",
        "discovery.config.clusterName=",
        "discovery.config.clusterIDOverride=",
        "networkManager.externalIPAM.enabled=true",
        "telemetry.enable=true",
    ] {
        assert!(ours("", &[set]).is_err(), "{set}");
        assert!(manifest("", &[set]).is_err(), "{set}");
    }
}

#[test]
fn expressions_mean_the_same_to_helm() {
    let chart = tempfile::tempdir().unwrap();
    let templates = chart.path().join("templates");
    fs::create_dir(&templates).unwrap();
    fs::write(chart.path().join("Chart.yaml"), "{apiVersion: v2, name: t, version: 1.0.0}")
        .unwrap();
    fs::write(chart.path().join("values.yaml"), "kept: 1\ngone: {a: 1, b: 2}\nlist: [a]\n")
        .unwrap();
    fs::write(templates.join("a.yaml"), "{{ toYaml .Values }}").unwrap();
    let files =
        fs::read_dir(chart.path()).unwrap().flatten().filter(|entry| entry.path().is_file());
    let read = |path: PathBuf| fs::read_to_string(path).unwrap();
    let files = files.map(|e| (e.file_name().into_string().unwrap(), read(e.path())));
    let ours = Chart::new(files).unwrap();

    for set in [
        "a=1,b=true,c=01,d=,e=-5,f=1.5",
        "a={x,1,true},b={},c[1].d=e,c[0]=f",
        r"a\.b/c=d\,e,x=y=z",
        "a[0][1]=x,gone.a=null,list[1]=b",
        "gone=null,list={}",
        "kept.inner=1",
    ] {
        let output = helm(chart.path(), &["template", "liqo"], &["--set", set]).unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let theirs: Value = serde_saphyr::from_str(&text).unwrap();
        let mut overrides = Overrides::default();
        overrides.set(set).unwrap();

        assert_eq!(Values::new(&ours, &overrides).unwrap().all(), &theirs, "{set}");
    }
}

fn ours(file: &str, sets: &[&str]) -> Result<(Rendered, Values)> {
    let chart = Chart::embedded()?;
    let mut overrides = Overrides::default();
    overrides.file("identity", IDENTITY)?.file("case", file)?;
    for set in sets {
        overrides.set(set)?;
    }
    let values = Values::new(&chart, &overrides)?;
    Ok((render(&chart, &values, &Target::new(KUBERNETES))?, values))
}

fn manifest(file: &str, sets: &[&str]) -> Result<Vec<Value>> {
    let folder = tempfile::tempdir()?;
    let mut arguments = vec![];
    for (name, text) in [("identity.yaml", IDENTITY), ("case.yaml", file)] {
        let path = folder.path().join(name);
        fs::write(&path, text)?;
        arguments.extend(["-f".to_owned(), path.to_string_lossy().into_owned()]);
    }
    for set in sets {
        arguments.extend(["--set".to_owned(), (*set).to_owned()]);
    }
    let options = ["--namespace", "liqo", "--kube-version", KUBERNETES];
    let options: Vec<&str> =
        options.into_iter().chain(arguments.iter().map(String::as_str)).collect();
    let output = helm(&HOME.join("charts/liqo"), &["template", "liqo"], &options)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "helm template: {errors}");
    Ok(serde_saphyr::from_multiple(&String::from_utf8(output.stdout)?)?)
}

/// Runs Helm on a chart, without a cluster.
fn helm(chart: &Path, command: &[&str], options: &[&str]) -> Result<Output> {
    let chart = chart.to_string_lossy();
    real::helm(None, &[command, &[&*chart], options].concat())
}

fn name(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    format!("{} {}", text("/kind"), text("/metadata/name"))
}

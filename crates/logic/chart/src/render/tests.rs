//! What rendering makes of small charts, and of ours.

use super::*;
use crate::Overrides;

#[test]
fn documents_come_in_the_order_of_their_kinds() {
    let rendered = small(&[
        ("templates/a.yaml", "kind: Deployment\nmetadata: {name: a}\n---\n# nothing\n---\n"),
        ("templates/b.yaml", "kind: ServiceAccount\nmetadata: {name: b}"),
        ("templates/c.yaml", "kind: Deployment\nmetadata: {name: c}"),
    ]);

    let names: Vec<&str> = rendered.documents.iter().map(Document::name).collect();
    assert_eq!(names, ["b", "a", "c"]);
    assert_eq!(
        rendered.manifest().lines().take(3).collect::<Vec<_>>(),
        ["---", "# Source: test/templates/b.yaml", "kind: ServiceAccount"]
    );
}

#[test]
fn hooks_are_apart_and_in_order_of_weight() {
    let hook = |kind: &str, weight: i32| {
        format!(
            "kind: {kind}\nmetadata:\n  name: x\n  annotations:\n    helm.sh/hook: pre-install, \
             post-install\n    helm.sh/hook-weight: \"{weight}\"\n"
        )
    };
    let text = format!("{}---\n{}", hook("ServiceAccount", 5), hook("Job", -5));
    let rendered = small(&[("templates/a.yaml", &text)]);

    assert!(rendered.documents.is_empty());
    let kinds: Vec<&str> =
        rendered.hooks_of("post-install").iter().map(|hook| hook.document.kind()).collect();
    assert_eq!(kinds, ["Job", "ServiceAccount"]);
    assert!(rendered.hooks_of("pre-delete").is_empty());
}

#[test]
fn templates_include_each_other_and_read_files() {
    let rendered = small(&[
        ("files/a.txt", "from a file"),
        ("templates/_a.tpl", "{{ define \"a\" }}{{ .root.Files.Get \"files/a.txt\" }}{{ end }}"),
        ("templates/a.yaml", "kind: {{ include \"a\" (dict \"root\" .) | quote }}"),
        ("templates/NOTES.txt", "{{ .Release.Name }} {{ .Values.missing }}!"),
    ]);

    assert_eq!(rendered.documents[0].kind(), "from a file");
    assert_eq!(rendered.notes, "liqo !");
}

#[test]
fn problems_name_the_template() {
    for (text, expected) in [
        ("{{ fail \"no\" }}", "test/templates/a.yaml: no"),
        ("{{ required \"give it\" .Values.it }}", "test/templates/a.yaml: give it"),
        ("a: [", "test/templates/a.yaml is not valid YAML"),
        ("{{ join 1 2 }}", "test/templates/a.yaml: join: takes a list, not 2"),
    ] {
        let error = try_small(&[("templates/a.yaml", text)]).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn our_chart_asks_for_the_names_it_cannot_know() {
    let chart = Chart::embedded().unwrap();
    let refusal = |settings: &str| {
        let mut overrides = Overrides::default();
        overrides.set(settings).unwrap();
        let values = Values::new(&chart, &overrides).unwrap();
        render(&chart, &values, &Target::new("v1.34.4")).unwrap_err().to_string()
    };

    assert!(
        refusal("").ends_with("give discovery.config.clusterName: peers know the cluster by it")
    );
    assert!(
        refusal("discovery.config.clusterName=rome")
            .contains("give discovery.config.clusterIDOverride")
    );
}

fn small(files: &[(&str, &str)]) -> Rendered {
    try_small(files).unwrap()
}

fn try_small(files: &[(&str, &str)]) -> Result<Rendered, Error> {
    let own =
        [("Chart.yaml", "apiVersion: v2\nname: test\nversion: 1.0.0\n"), ("values.yaml", "{}")];
    let files = own.iter().chain(files).map(|(name, text)| ((*name).into(), (*text).into()));
    let chart = Chart::new(files)?;
    let values = Values::new(&chart, &Overrides::default())?;
    render(&chart, &values, &Target::new("v1.34.4"))
}

//! Templates and values become objects, in the order in which they are installed.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};

use gotmpl::{MissingKey, Template, TemplateError};
use serde_json::{Value, json};

use crate::functions::{from_json, functions, words};
use crate::{Chart, Error, Values, kinds, yaml};

/// What templates are told of the installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name of the release.
    pub release: String,
    /// Namespace of the release.
    pub namespace: String,
    /// Version of Kubernetes, such as `v1.34.4`.
    pub kubernetes: String,
    /// How often the release was installed or upgraded, this time included.
    pub revision: u32,
    /// Whether there is something to upgrade.
    pub is_upgrade: bool,
}

impl Target {
    /// A first installation under the names that everyone expects.
    pub fn new(kubernetes: &str) -> Self {
        let (release, namespace) = ("liqo".to_owned(), "liqo".to_owned());
        let kubernetes = kubernetes.to_owned();
        Self { release, namespace, kubernetes, revision: 1, is_upgrade: false }
    }
}

/// An object, and the text it was read from.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Template it comes from, such as `liqo/templates/auth.yaml`.
    pub source: String,
    /// Its text.
    pub text: String,
    /// The object.
    pub object: Value,
}

impl Document {
    /// Kind of the object.
    pub fn kind(&self) -> &str {
        self.object.get("kind").and_then(Value::as_str).unwrap_or_default()
    }

    /// Name of the object.
    pub fn name(&self) -> &str {
        self.object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.object.pointer("/metadata/annotations")?.get(name)?.as_str()
    }
}

/// An object that is applied when something happens to the release, and not kept with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    /// The object.
    pub document: Document,
    /// When it is applied, such as `pre-install`.
    pub events: Vec<String>,
    /// Hooks of smaller weight come first.
    pub weight: i64,
    /// When it is deleted, such as `hook-succeeded`.
    pub delete_policies: Vec<String>,
}

/// What a chart makes of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// The objects of the release, in the order of their installation.
    pub documents: Vec<Document>,
    /// Objects that belong to moments, by kind; [`Rendered::hooks_of`] has them in order.
    pub hooks: Vec<Hook>,
    /// What the user is told afterwards.
    pub notes: String,
}

impl Rendered {
    /// All objects of the release as one text, as Helm keeps it.
    pub fn manifest(&self) -> String {
        let part = |document: &Document| {
            format!("---\n# Source: {}\n{}\n", document.source, document.text)
        };
        self.documents.iter().map(part).collect()
    }

    /// The hooks of an event, in the order in which they are applied.
    pub fn hooks_of(&self, event: &str) -> Vec<&Hook> {
        let ours = |hook: &&Hook| hook.events.iter().any(|one| one == event);
        let mut hooks: Vec<&Hook> = self.hooks.iter().filter(ours).collect();
        hooks.sort_by_key(|hook| hook.weight);
        hooks
    }
}

/// Renders a chart.
pub fn render(chart: &Chart, values: &Values, target: &Target) -> Result<Rendered, Error> {
    let engine = Engine::new(chart)?;
    let mut documents = vec![];
    let mut notes = String::new();
    for (path, _) in chart.folder("templates").filter(|(path, _)| !is_partial(path)) {
        let source = format!("{}/{path}", chart.metadata.name);
        let dot = from_json(&dot(chart, values, target, &source));
        let text = engine.run(&source, &dot)?;
        if path.ends_with("NOTES.txt") {
            notes = text;
            continue;
        }
        for text in split(&text) {
            let object: Value = yaml::read(&source, &text)?;
            if !object.is_null() {
                documents.push(Document { source: source.clone(), text, object });
            }
        }
    }
    documents.sort_by(|left, right| kinds::compare(left.kind(), right.kind()));
    let (hooks, documents): (Vec<_>, Vec<_>) =
        documents.into_iter().partition(|document| document.annotation("helm.sh/hook").is_some());
    Ok(Rendered { documents, hooks: hooks.into_iter().map(hook).collect(), notes })
}

fn hook(document: Document) -> Hook {
    let words = |name: &str| -> Vec<String> {
        let text = document.annotation(name).unwrap_or_default();
        text.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
    };
    let (events, delete_policies) = (words("helm.sh/hook"), words("helm.sh/hook-delete-policy"));
    let weight = document.annotation("helm.sh/hook-weight").and_then(|text| text.parse().ok());
    Hook { events, weight: weight.unwrap_or_default(), delete_policies, document }
}

/// Everything that a template sees as `.`.
fn dot(chart: &Chart, values: &Values, target: &Target, source: &str) -> Value {
    let metadata = &chart.metadata;
    let mut numbers = target.kubernetes.trim_start_matches('v').split('.');
    let mut number = || numbers.next().unwrap_or_default().to_owned();
    json!({
        "Values": values.all(),
        "Chart": {
            "Name": metadata.name,
            "Version": metadata.version,
            "AppVersion": metadata.app_version,
            "KubeVersion": metadata.kube_version,
        },
        "Release": {
            "Name": target.release,
            "Namespace": target.namespace,
            "Service": "Helm",
            "Revision": target.revision,
            "IsInstall": !target.is_upgrade,
            "IsUpgrade": target.is_upgrade,
        },
        "Capabilities": {
            "KubeVersion": {"Version": target.kubernetes, "Major": number(), "Minor": number()},
        },
        "Template": {"Name": source, "BasePath": format!("{}/templates", metadata.name)},
        "Files": {},
    })
}

/// All templates of a chart, which call each other by name.
struct Engine {
    templates: Arc<Template>,
}

impl Engine {
    fn new(chart: &Chart) -> Result<Self, Error> {
        let own: Arc<OnceLock<Weak<Template>>> = Arc::default();
        let files: BTreeMap<String, String> =
            chart.loose_files().map(|(path, text)| (path.to_owned(), text.to_owned())).collect();
        let includer = Arc::clone(&own);
        let mut templates = Template::new("")
            .missing_key(MissingKey::ZeroValue)
            .funcs(functions())
            .func("include", move |arguments| include(&includer, arguments))
            .func("filesGet", move |arguments| {
                let path = arguments.first().map(ToString::to_string).unwrap_or_default();
                Ok(files.get(&path).map_or("", String::as_str).into())
            });
        for (path, text) in chart.folder("templates") {
            let source = format!("{}/{path}", chart.metadata.name);
            let text = without_methods(text);
            let text = if is_partial(path) {
                text
            } else {
                format!("{{{{ define \"{source}\" }}}}{text}{{{{ end }}}}")
            };
            templates = templates.parse(&text).map_err(|error| problem(&source, &error))?;
        }
        let templates = Arc::new(templates);
        // The lock is new, and filled only here.
        let _ = own.set(Arc::downgrade(&templates));
        Ok(Self { templates })
    }

    fn run(&self, name: &str, dot: &gotmpl::Value) -> Result<String, Error> {
        let text = self.templates.execute_template_to_string(name, dot);
        Ok(text.map_err(|error| problem(name, &error))?.replace("<no value>", ""))
    }
}

fn include(
    templates: &OnceLock<Weak<Template>>,
    arguments: &[gotmpl::Value],
) -> Result<gotmpl::Value, TemplateError> {
    let [gotmpl::Value::String(name), dot] = arguments else {
        return Err(TemplateError::Exec("include takes a name and a value".to_owned()));
    };
    let templates = templates.get().and_then(Weak::upgrade);
    let templates =
        templates.ok_or_else(|| TemplateError::Exec("nothing to include".to_owned()))?;
    templates.execute_template_to_string(name, dot).map(gotmpl::Value::from)
}

fn problem(template: &str, error: &TemplateError) -> Error {
    Error::Template { template: template.to_owned(), problem: words(error) }
}

fn is_partial(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with('_'))
}

/// The engine knows functions but no methods: `$.root.Files.Get` is a function here.
fn without_methods(text: &str) -> String {
    const METHOD: &str = ".Files.Get ";
    let mut parts = text.split(METHOD);
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let owner = |c: char| c.is_alphanumeric() || "$._".contains(c);
        let kept = result.trim_end_matches(owner).len();
        result.truncate(kept);
        result.push_str("filesGet ");
        result.push_str(part);
    }
    result
}

/// Reads the text that [`Rendered::manifest`] writes, or Helm.
pub fn documents(manifest: &str) -> Result<Vec<Document>, Error> {
    let mut documents = vec![];
    for text in split(manifest) {
        let source = text.lines().find_map(|line| line.strip_prefix("# Source: "));
        let source = source.unwrap_or("the manifest").trim().to_owned();
        let object: Value = yaml::read(&source, &text)?;
        if !object.is_null() {
            let head = format!("# Source: {source}\n");
            let text = text.strip_prefix(&head).unwrap_or(&text).to_owned();
            documents.push(Document { source, text, object });
        }
    }
    Ok(documents)
}

/// The documents of a text, without those that are empty.
fn split(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        if line.trim_end() == "---" {
            documents.push(String::new());
        } else if let Some(last) = documents.last_mut() {
            last.push_str(line);
            last.push('\n');
        }
    }
    let trimmed = documents.iter().map(|document| document.trim().to_owned());
    trimmed.filter(|document| !document.is_empty()).collect()
}

#[cfg(test)]
mod tests;

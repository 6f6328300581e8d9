//! Values of a chart: defaults, then the user's files, then the user's expressions.

use serde_json::{Map, Value};

use crate::{Chart, Error, Expression, check, yaml};

/// What the user says of the values, in the order it was said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    values: Map<String, Value>,
}

impl Overrides {
    /// Takes a file's values over what was said before: maps are merged, everything else replaced.
    pub fn file(&mut self, name: &str, text: &str) -> Result<&mut Self, Error> {
        if let Value::Object(map) = yaml::read_map(name, text)? {
            merge(&mut self.values, map);
        }
        Ok(self)
    }

    /// Takes a value as a whole over what was said before.
    pub fn value(&mut self, value: Value) -> Result<&mut Self, Error> {
        let Value::Object(map) = value else { return Err(Error::NoMap("the value".to_owned())) };
        merge(&mut self.values, map);
        Ok(self)
    }

    /// Applies an expression as `--set` takes it.
    pub fn set(&mut self, expression: &str) -> Result<&mut Self, Error> {
        Expression::typed(expression)?.apply(&mut self.values)?;
        Ok(self)
    }

    /// Applies an expression as `--set-string` takes it.
    pub fn set_string(&mut self, expression: &str) -> Result<&mut Self, Error> {
        Expression::text(expression)?.apply(&mut self.values)?;
        Ok(self)
    }

    /// What the user said, which is what a release records.
    pub fn as_value(&self) -> Value {
        Value::Object(self.values.clone())
    }
}

/// Values that the chart's templates can rely on.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    all: Value,
    given: Value,
}

impl Values {
    /// Puts the user's values over the chart's, and checks them.
    ///
    /// A null takes a default away, as Helm has it.
    pub fn new(chart: &Chart, overrides: &Overrides) -> Result<Self, Error> {
        let mut all = chart.defaults()?;
        lay_over(&mut all, overrides.as_value());
        if let Some(text) = chart.file("values.schema.json") {
            let schema: Value = yaml::read("values.schema.json", text)?;
            let problems = check(&schema, &all);
            if !problems.is_empty() {
                return Err(Error::Values(problems));
            }
        }
        Ok(Self { all, given: overrides.as_value() })
    }

    /// All values.
    pub fn all(&self) -> &Value {
        &self.all
    }

    /// Only what the user said.
    pub fn given(&self) -> &Value {
        &self.given
    }
}

/// Puts a user's values over those of a chart; a null takes a default away.
pub fn lay_over(all: &mut Value, given: Value) {
    if let (Value::Object(all), Value::Object(given)) = (all, given) {
        merge(all, given);
        drop_nulls(all);
    }
}

fn merge(below: &mut Map<String, Value>, above: Map<String, Value>) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(Value::Object(inner)), Value::Object(value)) => merge(inner, value),
            (_, value) => {
                below.insert(key, value);
            }
        }
    }
}

fn drop_nulls(map: &mut Map<String, Value>) {
    map.retain(|_, value| !value.is_null());
    for value in map.values_mut() {
        if let Value::Object(inner) = value {
            drop_nulls(inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn later_words_win_and_maps_are_merged() {
        let mut overrides = Overrides::default();
        overrides.file("a.yaml", "gateway: {replicas: 2, service: {type: NodePort}}").unwrap();
        overrides.file("b.yaml", "gateway: {replicas: 3}").unwrap();
        overrides.set("gateway.service.labels.a=b,tag=1").unwrap();
        overrides.set_string("tag=1").unwrap();

        let expected = json!({
            "gateway": {"replicas": 3, "service": {"type": "NodePort", "labels": {"a": "b"}}},
            "tag": "1",
        });
        assert_eq!(overrides.as_value(), expected);
    }

    #[test]
    fn lists_are_replaced_and_nulls_take_away() {
        let chart = chart("list: [a, b]\nmap: {a: 1, b: 2}\n");
        let mut overrides = Overrides::default();
        overrides.set("list={c},map.a=null").unwrap();

        let values = Values::new(&chart, &overrides).unwrap();

        assert_eq!(values.all(), &json!({"list": ["c"], "map": {"b": 2}}));
        assert_eq!(values.given(), &json!({"list": ["c"], "map": {"a": null}}));
    }

    #[test]
    fn a_file_that_is_no_map_is_refused_by_name() {
        let error = Overrides::default().file("mine.yaml", "- a").unwrap_err();

        assert_eq!(error.to_string(), "mine.yaml holds no map of values");
    }

    #[test]
    fn what_the_chart_does_not_expect_is_refused() {
        let chart = Chart::embedded().unwrap();
        let mut overrides = Overrides::default();
        overrides.set("gateway.replicas=many,gatway.replicas=2").unwrap();

        let error = Values::new(&chart, &overrides).unwrap_err().to_string();

        assert_eq!(
            error,
            "gateway.replicas: is \"many\", and has to be an integer\n\
             gatway: is no setting; did you mean gateway?"
        );
    }

    fn chart(values: &str) -> Chart {
        let description = "apiVersion: v2\nname: test\nversion: 1.0.0\n";
        let files = [("Chart.yaml", description), ("values.yaml", values)];
        Chart::new(files.map(|(name, text)| (name.to_owned(), text.to_owned()))).unwrap()
    }
}

//! Messages become JSON, as API servers would have written it.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::fields::{ANSWER, Field, Kind, Message, PARTIAL, POD};

/// What every object begins with.
const MAGIC: &[u8] = b"k8s\0";

/// Why a message cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misread {
    #[error("it is broken")]
    Broken,
    #[error("it says something that is not known here (field {0})")]
    Unknown(u64),
    #[error("it is about a {0}, which is not known here")]
    Kind(String),
}

/// An event of a watch, as a line of JSON.
pub(super) fn event(frame: &[u8]) -> Result<Vec<u8>, Misread> {
    let (mut kind, mut object) = (String::new(), None);
    for item in Items(frame) {
        match item? {
            (1, Item::Bytes(bytes)) => kind = text(bytes)?,
            // Raw bytes of another message are its only field.
            (2, Item::Bytes(bytes)) => object = first(bytes, 1)?,
            _ => {}
        }
    }
    let object = self::object(object.ok_or(Misread::Broken)?)?;
    let event =
        Map::from_iter([("type".to_owned(), Value::from(kind)), ("object".to_owned(), object)]);
    let mut line = serde_json::to_vec(&event).map_err(|_| Misread::Broken)?;
    line.push(b'\n');
    Ok(line)
}

/// An object with what it says of its kind.
pub(super) fn object(bytes: &[u8]) -> Result<Value, Misread> {
    let (mut version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for item in Items(bytes.strip_prefix(MAGIC).ok_or(Misread::Broken)?) {
        match item? {
            (1, Item::Bytes(types)) => {
                version = text(first(types, 1)?.unwrap_or_default())?;
                kind = text(first(types, 2)?.unwrap_or_default())?;
            }
            (2, Item::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let message = match kind.as_str() {
        "Pod" => &POD,
        "PartialObjectMetadata" => &PARTIAL,
        "Status" => &ANSWER,
        _ => return Err(Misread::Kind(kind)),
    };
    let mut fields = read(message, raw)?;
    fields.insert("apiVersion".to_owned(), version.into());
    fields.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(fields))
}

/// The first field of a number.
fn first(bytes: &[u8], wanted: u64) -> Result<Option<&[u8]>, Misread> {
    for item in Items(bytes) {
        if let (number, Item::Bytes(bytes)) = item?
            && number == wanted
        {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

fn read(message: &Message, bytes: &[u8]) -> Result<Map<String, Value>, Misread> {
    let mut read = Map::new();
    read_into(&mut read, message, bytes)?;
    Ok(read)
}

fn read_into(
    read: &mut Map<String, Value>,
    message: &Message,
    bytes: &[u8],
) -> Result<(), Misread> {
    for item in Items(bytes) {
        let (number, item) = item?;
        match message.fields.iter().find(|field| field.number == number) {
            Some(field) => read_field(read, field, item)?,
            None if message.is_whole => return Err(Misread::Unknown(number)),
            None => {}
        }
    }
    Ok(())
}

fn read_field(read: &mut Map<String, Value>, field: &Field, item: Item<'_>) -> Result<(), Misread> {
    let value = match (&field.kind, item) {
        (Kind::Text, Item::Bytes(bytes)) => text(bytes)?.into(),
        (Kind::Number, Item::Number(number)) => number.cast_signed().into(),
        (Kind::Flag, Item::Number(number)) => (number != 0).into(),
        (Kind::Moment, Item::Bytes(bytes)) => moment(bytes)?,
        (Kind::Message(message), Item::Bytes(bytes)) => self::read(message, bytes)?.into(),
        (Kind::Inside(message), Item::Bytes(bytes)) => return read_into(read, message, bytes),
        (Kind::Texts, Item::Bytes(bytes)) => return entry(read, field.name, bytes, text),
        (Kind::Amounts, Item::Bytes(bytes)) => return entry(read, field.name, bytes, amount),
        (_, Item::Bytes(_) | Item::Number(_) | Item::Other) => return Err(Misread::Broken),
    };
    if field.is_list {
        let list = read.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
        list.as_array_mut().ok_or(Misread::Broken)?.push(value);
    } else if field.shows_nothing || !is_nothing(&value) {
        read.insert(field.name.to_owned(), value);
    }
    Ok(())
}

/// Takes one entry of what is ordered by name.
fn entry(
    read: &mut Map<String, Value>,
    name: &str,
    bytes: &[u8],
    value: fn(&[u8]) -> Result<String, Misread>,
) -> Result<(), Misread> {
    let key = text(first(bytes, 1)?.unwrap_or_default())?;
    let value = value(first(bytes, 2)?.unwrap_or_default())?;
    let entries = read.entry(name).or_insert_with(|| Value::Object(Map::new()));
    entries.as_object_mut().ok_or(Misread::Broken)?.insert(key, value.into());
    Ok(())
}

/// Whether JSON leaves a value out; not a time that is not known, or something empty.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(flag) => !flag,
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

fn text(bytes: &[u8]) -> Result<String, Misread> {
    str::from_utf8(bytes).map(str::to_owned).map_err(|_| Misread::Broken)
}

/// A number with a unit.
fn amount(bytes: &[u8]) -> Result<String, Misread> {
    text(first(bytes, 1)?.unwrap_or_default())
}

/// A time as JSON shows it, by the second.
fn moment(bytes: &[u8]) -> Result<Value, Misread> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let mut seconds = 0;
    for item in Items(bytes) {
        if let (1, Item::Number(number)) = item? {
            seconds = number.cast_signed();
        }
    }
    let time = Timestamp::from_second(seconds).map_err(|_| Misread::Broken)?;
    Ok(time.to_string().into())
}

/// What a field holds, before anybody knows what it means.
#[derive(Clone, Copy)]
enum Item<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Other,
}

/// The fields of a message, by number.
struct Items<'a>(&'a [u8]);

impl<'a> Iterator for Items<'a> {
    type Item = Result<(u64, Item<'a>), Misread>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let item = self.take();
        if item.is_none() {
            self.0 = &[];
        }
        Some(item.ok_or(Misread::Broken))
    }
}

impl<'a> Items<'a> {
    fn take(&mut self) -> Option<(u64, Item<'a>)> {
        let head = self.number()?;
        let item = match head & 7 {
            0 => Item::Number(self.number()?),
            1 => self.bytes(8).map(|_| Item::Other)?,
            2 => {
                let length = usize::try_from(self.number()?).ok()?;
                Item::Bytes(self.bytes(length)?)
            }
            5 => self.bytes(4).map(|_| Item::Other)?,
            _ => return None,
        };
        Some((head >> 3, item))
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for place in 0..10 {
            let byte = *self.bytes(1)?.first()?;
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_becomes_the_json_that_would_have_been_sent() {
        let waiting = bytes(1, &[bytes(1, b"ContainerCreating"), bytes(2, b"")].concat());
        let container = [
            bytes(1, b"web"),
            bytes(2, &waiting),
            bytes(3, b""),
            number(4, 0),
            number(5, 0),
            bytes(6, b"image"),
            bytes(7, b""),
            bytes(8, b""),
            bytes(10, &[bytes(1, b"cpu"), bytes(2, &bytes(1, b"100m"))].concat()),
        ];
        let condition = [
            bytes(1, b"Ready"),
            bytes(2, b"False"),
            bytes(3, b""),
            bytes(4, &[number(1, 86_400), number(2, 0)].concat()),
            bytes(5, b""),
        ];
        let status =
            [bytes(1, b"Pending"), bytes(2, &condition.concat()), bytes(8, &container.concat())];
        let label = [bytes(1, b"app"), bytes(2, b"web")].concat();
        let metadata = [bytes(1, b"web-0"), bytes(11, &label), bytes(17, b"\x08"), number(7, 0)];
        let added = bytes(1, &[bytes(1, b"debugger"), bytes(2, b"busybox")].concat());
        let spec = [bytes(10, b"node"), bytes(99, b"later"), bytes(34, &added)];
        let parts =
            [bytes(1, &metadata.concat()), bytes(2, &spec.concat()), bytes(3, &status.concat())];
        let line = event(&sent("MODIFIED", "Pod", &parts.concat())).unwrap();
        assert_eq!(line.last(), Some(&b'\n'));
        let line: Value = serde_json::from_slice(&line).unwrap();
        let container = json!({
            "name": "web", "state": {"waiting": {"reason": "ContainerCreating"}}, "lastState": {},
            "ready": false, "restartCount": 0, "image": "image", "imageID": "",
            "allocatedResources": {"cpu": "100m"},
        });
        let condition = json!({
            "type": "Ready", "status": "False", "lastProbeTime": null,
            "lastTransitionTime": "1970-01-02T00:00:00Z",
        });
        let want = json!({"type": "MODIFIED", "object": {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web-0", "labels": {"app": "web"}},
            "spec": {"nodeName": "node", "ephemeralContainers": [{"name": "debugger"}]},
            "status": {"phase": "Pending", "conditions": [condition],
                       "containerStatuses": [container]},
        }});
        assert_eq!(line, want);
    }

    #[test]
    fn a_status_of_tomorrow_is_not_cut_short() {
        let status = [bytes(1, b"Running"), bytes(99, b"new")].concat();
        let pod = sent("ADDED", "Pod", &bytes(3, &status));
        assert_eq!(event(&pod), Err(Misread::Unknown(99)));
    }

    #[test]
    fn the_end_of_a_watch_is_told() {
        let status =
            [bytes(2, b"Failure"), bytes(3, b"too old"), bytes(4, b"Expired"), number(6, 410)];
        let line = event(&sent("ERROR", "Status", &status.concat())).unwrap();
        let line: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(line["object"]["code"], 410);
        assert_eq!(line["object"]["reason"], "Expired");
        assert_eq!(event(&sent("ADDED", "Node", b"")), Err(Misread::Kind("Node".to_owned())));
    }

    proptest! {
        #[test]
        fn whatever_comes_nothing_breaks(frame in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = event(&frame);
            let _ = event(&sent("ADDED", "Pod", &frame));
        }
    }

    fn sent(event: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let types = [bytes(1, b"v1"), bytes(2, kind.as_bytes())].concat();
        let object =
            [MAGIC.to_vec(), bytes(1, &types), bytes(2, raw), bytes(3, b""), bytes(4, b"")];
        [bytes(1, event.as_bytes()), bytes(2, &bytes(1, &object.concat()))].concat()
    }

    fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
        [varint(field << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
    }

    fn number(field: u64, value: u64) -> Vec<u8> {
        [varint(field << 3), varint(value)].concat()
    }

    fn varint(mut value: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while value > 0x7f {
            bytes.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        bytes.push(value.to_le_bytes()[0]);
        bytes
    }
}

//! A document as it goes out.

use bytes::Bytes;
use serde_json::Value;

use super::{Document, Edit, Field};

impl Document {
    /// The document as it goes out: the bytes it came as, but for the edits.
    pub fn to_bytes(&self) -> Bytes {
        if !self.is_edited() {
            return self.bytes.clone();
        }
        let mut out = Vec::with_capacity(self.bytes.len());
        let removes = |it: &Field| matches!(it.edit, Some(Edit::Remove));
        if self.listed().iter().any(removes) {
            self.write_anew(&mut out);
        } else {
            self.splice(&mut out);
        }
        out.into()
    }

    /// Replaces the texts of edited fields and adds new ones before the end.
    fn splice(&self, out: &mut Vec<u8>) {
        let mut done = 0;
        for field in self.listed() {
            if let (Some(Edit::Set(text)), Some(place)) = (&field.edit, &field.place) {
                out.extend(self.bytes.get(done..place.start).unwrap_or_default());
                out.extend(text);
                done = place.end;
            }
        }
        let end = self
            .bytes
            .iter()
            .rposition(|it| *it == b'}')
            .unwrap_or(done);
        out.extend(self.bytes.get(done..end).unwrap_or_default());
        let had_fields = self.listed().iter().any(|it| it.place.is_some());
        let mut separator = if had_fields { "," } else { "" };
        for field in self.listed().iter().filter(|it| it.place.is_none()) {
            if let Some(Edit::Set(text)) = &field.edit {
                write_field(out, separator, &field.key, text);
                separator = ",";
            }
        }
        out.extend(self.bytes.get(end..).unwrap_or_default());
    }

    /// Writes field after field; only white space between them is lost.
    fn write_anew(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        let mut separator = "";
        for field in self.listed() {
            let text = match (&field.edit, &field.place) {
                (Some(Edit::Remove), _) | (None, None) => continue,
                (Some(Edit::Set(text)), _) => text.as_ref(),
                (None, Some(place)) => self.bytes.get(place.clone()).unwrap_or_default(),
            };
            write_field(out, separator, &field.key, text);
            separator = ",";
        }
        out.push(b'}');
    }
}

fn write_field(out: &mut Vec<u8>, separator: &str, key: &str, text: &[u8]) {
    out.extend(separator.as_bytes());
    out.extend(Value::String(key.to_owned()).to_string().as_bytes());
    out.push(b':');
    out.extend(text);
}

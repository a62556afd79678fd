//! Fields of events and spans as values that can be shown: escaped, bounded, without what is never logged.

use std::error::Error;
use std::fmt::Debug;

use tracing::field::{Field, Visit};

use super::never;
use crate::failure::Failure;
use crate::terminal;

/// Bytes of one value; the text of a failure has at most as many.
const TEXT_BYTES_MAX: usize = 4096;
/// Fields of one line, those of its spans too.
pub(super) const FIELDS_MAX: usize = 64;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    /// Safe to show: no control character is in it.
    Text(String),
}

impl Value {
    /// From anywhere.
    fn text(text: &str) -> Self {
        if never::withholds_text(text) {
            return Self::Text(never::WITHHELD.to_owned());
        }
        let mut end = TEXT_BYTES_MAX.min(text.len());
        while !text.is_char_boundary(end) {
            end = end.saturating_sub(1);
        }
        let (kept, rest) = text.split_at(end);
        let mut safe = terminal::safe(kept);
        if !rest.is_empty() {
            safe.push_str(" [cut]");
        }
        Self::Text(safe)
    }
}

/// Fields in the order in which they were written.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    pub(super) message: Option<String>,
    pub(super) values: Vec<(&'static str, Value)>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        let name = field.name();
        let value = if never::withholds_name(name) { Value::Text(never::WITHHELD.to_owned()) } else { value };
        match (name, value) {
            ("message", Value::Text(text)) => self.message = Some(text),
            (name, value) => {
                if let Some(known) = self.values.iter_mut().find(|(known, _)| *known == name) {
                    known.1 = value;
                } else if self.values.len() < FIELDS_MAX {
                    self.values.push((name, value));
                }
            }
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, Value::Float(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::Signed(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, Value::Unsigned(value));
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.put(field, Value::Text(value.to_string()));
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.put(field, Value::Text(value.to_string()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::Bool(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::text(value));
    }

    /// Bytes are never shown, only how many they were.
    fn record_bytes(&mut self, field: &Field, value: &[u8]) {
        self.put(field, Value::Text(format!("{} {} bytes", never::WITHHELD, value.len())));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.put(field, Value::text(&Failure::chain(value)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, Value::text(&format!("{value:?}")));
    }
}

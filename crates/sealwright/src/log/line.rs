//! From an event, and the spans around it, to one line.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value as Json};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::Format;
use super::value::{FIELDS_MAX, Fields, Value};

/// What crates of other people may say.
const FOREIGN_LEVEL_MAX: Level = Level::INFO;

/// Names of a JSON line that no field can take.
const OWN_NAMES: [&str; 5] = ["time", "level", "process", "target", "message"];

/// How lines look now; can be changed while they are written.
pub(super) struct Shape {
    is_json: AtomicBool,
}

impl Shape {
    pub(super) const fn new(format: Format) -> Self {
        Self { is_json: AtomicBool::new(matches!(format, Format::Json)) }
    }

    pub(super) fn is_json(&self) -> bool {
        self.is_json.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, format: Format) {
        self.is_json.store(matches!(format, Format::Json), Ordering::Relaxed);
    }
}

/// Writes each event to `sink`, a whole line at a time.
pub(super) struct Lines<S> {
    process: &'static str,
    shape: Arc<Shape>,
    sink: S,
}

impl<S: Fn(&[u8]) + Send + Sync + 'static> Lines<S> {
    pub(super) const fn new(process: &'static str, shape: Arc<Shape>, sink: S) -> Self {
        Self { process, shape, sink }
    }
}

impl<C, S> Layer<C> for Lines<S>
where
    C: Subscriber + for<'a> LookupSpan<'a>,
    S: Fn(&[u8]) + Send + Sync + 'static,
{
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if may_speak(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, C>) -> bool {
        may_speak(metadata)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, C>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, C>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, C>) {
        let mut own = Fields::default();
        event.record(&mut own);
        let mut values: Vec<(&'static str, Value)> = Vec::new();
        for span in
            context.event_scope(event).into_iter().flat_map(tracing_subscriber::registry::Scope::from_root)
        {
            if let Some(fields) = span.extensions().get::<Fields>() {
                values.extend(fields.values.iter().cloned());
            }
        }
        values.append(&mut own.values);
        let line = Line {
            time: format!("{:.3}", jiff::Timestamp::now()),
            process: self.process,
            metadata: event.metadata(),
            message: own.message.as_deref().unwrap_or_default(),
            values: &inner_ones_win(&values),
        };
        let text = if self.shape.is_json() { line.json() } else { line.text() };
        (self.sink)(text.as_bytes());
    }
}

fn may_speak(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("sealwright") || *metadata.level() <= FOREIGN_LEVEL_MAX
}

/// A name that stands twice has the value that was written last: the event's, or else the inner span's.
fn inner_ones_win<'a>(values: &'a [(&'static str, Value)]) -> Vec<(&'static str, &'a Value)> {
    let mut kept: Vec<(&'static str, &Value)> = Vec::with_capacity(values.len());
    for (name, value) in values.iter().take(FIELDS_MAX) {
        match kept.iter_mut().find(|(known, _)| known == name) {
            Some(known) => known.1 = value,
            None => kept.push((name, value)),
        }
    }
    kept
}

struct Line<'a> {
    /// RFC 3339, UTC, milliseconds.
    time: String,
    process: &'static str,
    metadata: &'a Metadata<'a>,
    message: &'a str,
    values: &'a [(&'static str, &'a Value)],
}

impl Line<'_> {
    fn json(&self) -> String {
        let mut object = Map::new();
        let own = [
            self.time.as_str(),
            self.metadata.level().as_str(),
            self.process,
            self.metadata.target(),
            self.message,
        ];
        for (name, text) in OWN_NAMES.into_iter().zip(own) {
            object.insert(name.to_owned(), Json::from(text));
        }
        for (name, value) in self.values {
            let value = match value {
                Value::Bool(value) => Json::from(*value),
                Value::Signed(value) => Json::from(*value),
                Value::Unsigned(value) => Json::from(*value),
                Value::Float(value) => Json::from(*value),
                Value::Text(text) => Json::from(text.as_str()),
            };
            let name = if OWN_NAMES.contains(name) { format!("field_{name}") } else { (*name).to_owned() };
            object.insert(name, value);
        }
        format!("{}\n", Json::Object(object))
    }

    fn text(&self) -> String {
        let (level, target) = (self.metadata.level(), self.metadata.target());
        let mut line = format!("{} {level:>5} {} {target}: {}", self.time, self.process, self.message);
        for (name, value) in self.values {
            // Writing into a string does not fail.
            let _ = match value {
                Value::Bool(value) => write!(line, " {name}={value}"),
                Value::Signed(value) => write!(line, " {name}={value}"),
                Value::Unsigned(value) => write!(line, " {name}={value}"),
                Value::Float(value) => write!(line, " {name}={value}"),
                Value::Text(text) if is_bare(text) => write!(line, " {name}={text}"),
                Value::Text(text) => {
                    write!(line, " {name}=\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
                }
            };
        }
        line.push('\n');
        line
    }
}

/// One word that cannot be taken for another field.
fn is_bare(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| !c.is_whitespace() && !matches!(c, '=' | '"' | '\\'))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// What `work` writes in this format at the level `trace`.
    fn written(format: Format, work: impl FnOnce()) -> String {
        let written = Arc::new(Mutex::new(Vec::new()));
        let sink = {
            let written = Arc::clone(&written);
            move |line: &[u8]| written.lock().unwrap().extend_from_slice(line)
        };
        let lines = Lines::new("front", Arc::new(Shape::new(format)), sink);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), work);
        let bytes = std::mem::take(&mut *written.lock().unwrap());
        String::from_utf8(bytes).unwrap()
    }

    fn object(work: impl FnOnce()) -> Json {
        let line = written(Format::Json, work);
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        serde_json::from_str(&line).unwrap()
    }

    #[test]
    fn a_json_line_has_time_level_process_target_message_and_the_fields_of_its_spans() {
        let line = object(|| {
            let outer =
                tracing::info_span!("call", principal = "build-7", items = 1, late = tracing::field::Empty);
            outer.record("late", "x");
            let _outer = outer.enter();
            let _inner = tracing::info_span!("group", request_id = "0198").entered();
            tracing::info!(items = 3, ok = true, "answered");
        });
        let expected = serde_json::json!({
            "time": line["time"], "level": "INFO", "process": "front", "target": module_path!(),
            "message": "answered", "principal": "build-7", "request_id": "0198", "items": 3, "ok": true, "late": "x",
        });
        assert_eq!(line, expected);
        let time = line["time"].as_str().unwrap();
        assert!(time.len() == 24 && time.ends_with('Z') && time.parse::<jiff::Timestamp>().is_ok(), "{time}");
    }

    /// What a peer could send: ends of lines, the terminal's commands, turns of direction, a field, a line.
    const EVIL: &str = "x\n2026-11-30T00:00:00.000Z ERROR front sealwright: lost\r\n\u{1b}[2J\u{85}\u{2028}\u{2029}\u{202e}\u{2066}\u{61c}\u{9b}31m outcome=success";

    #[test]
    fn what_a_peer_puts_into_a_line_cannot_end_it_or_begin_another() {
        for format in [Format::Text, Format::Json] {
            let line = written(format, || {
                let _span = tracing::info_span!("call", principal = EVIL, peer = %EVIL).entered();
                tracing::warn!(name = EVIL, error = %EVIL, debugged = ?EVIL, "refused {EVIL}");
            });
            assert_eq!(line.lines().count(), 1, "{line:?}");
            let shown = line.trim_end_matches('\n');
            assert!(shown.is_ascii() && !shown.chars().any(char::is_control), "{line:?}");
            assert!(line.ends_with('\n'), "{line:?}");
        }
    }

    #[test]
    fn text_of_a_peer_is_in_quotation_marks_unless_it_is_one_plain_word() {
        let line = written(Format::Text, || tracing::info!(reason = %EVIL, peer = "plain", "turned away"));
        let (_, quoted) = line.split_once(" reason=\"").unwrap();
        let (quoted, rest) = quoted.split_once('"').unwrap();
        assert!(quoted.ends_with("outcome=success"), "{line}");
        assert_eq!(rest, " peer=plain\n");
        for (text, shown) in [
            ("", "\"\""),
            ("a b", "\"a b\""),
            ("a\u{a0}b", "\"a\u{a0}b\""),
            ("a=b", "\"a=b\""),
            ("a\\", "\"a\\\\\""),
            ("a\"b", "\"a\\\"b\""),
            ("\u{202e}a", "\"\\\\u{202e}a\""),
        ] {
            let line = written(Format::Text, || tracing::info!(reason = text, "x"));
            assert!(line.ends_with(&format!(": x reason={shown}\n")), "{line}");
        }
    }

    #[test]
    fn a_value_of_a_peer_cannot_pass_for_another_field() {
        let line = written(Format::Text, || tracing::info!(key = "a\" admin=true b=\"", "answered"));
        assert!(line.contains(r#"key="a\" admin=true b=\"""#), "{line}");
        let line = object(|| tracing::info!(time = "never", level = "none", "answered"));
        assert_eq!((&line["field_time"], &line["level"]), (&Json::from("never"), &Json::from("INFO")));
    }

    #[test]
    fn what_is_never_logged_is_withheld_in_events_and_spans() {
        let secret = "hunter2hunter2";
        for format in [Format::Text, Format::Json] {
            let line = written(format, || {
                let span =
                    tracing::info_span!("import", passphrase = secret, late_secret = tracing::field::Empty);
                span.record("late_secret", secret);
                let _span = span.entered();
                let key = [7_u8; 32];
                tracing::info!(
                    private = secret, key_material = ?secret, midstate = %secret, packet = secret, ticket = secret,
                    authorization = secret, key_list = ?key, "made",
                );
                tracing::info!("-----BEGIN PGP PRIVATE KEY BLOCK----- {secret}");
                tracing::info!(raw = secret.as_bytes(), "bytes");
            });
            assert!(!line.contains(secret) && !line.contains("7, 7"), "{line}");
            assert_eq!(line.matches("[withheld]").count(), 15, "{line}");
        }
    }

    #[test]
    fn other_crates_are_heard_at_info_at_most() {
        let lines = written(Format::Text, || {
            for target in 0..2 {
                if target == 0 {
                    tracing::trace!(target: "h2::codec", "frame");
                    tracing::debug!(target: "hyper", "header");
                    tracing::info!(target: "tonic", "heard");
                } else {
                    tracing::trace!(target: "sealwright_server", "ours");
                }
            }
        });
        assert_eq!(lines.lines().count(), 2, "{lines}");
        assert!(lines.contains("heard") && lines.contains("ours"), "{lines}");
    }

    #[test]
    fn a_line_has_a_bounded_length() {
        let line = written(Format::Json, || tracing::info!(error = "é ".repeat(100_000), "x"));
        assert!(line.len() < 5_000 && line.contains("[cut]"), "{}", line.len());
    }
}

//! Bars as SVG: one picture for each bench, readable on light and dark pages, without a library.

/// A picture of some values of one unit.
pub(super) struct Plot {
    pub(super) title: String,
    /// Of the values.
    pub(super) unit: &'static str,
    pub(super) bars: Vec<Bar>,
}

/// One value.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) of: Of,
}

/// Whose value it is: the colour.
#[derive(Clone, Copy)]
pub(super) enum Of {
    Ours,
    /// Another program's, or the bare operation's.
    Other,
    /// What was to be reached.
    Goal,
}

impl Bar {
    pub(super) fn new(name: impl Into<String>, value: f64, of: Of) -> Self {
        Self { name: name.into(), value, of }
    }
}

const WIDTH: f64 = 760.0;
const NAMES: f64 = 250.0;
const VALUES: f64 = 110.0;
const ROW: f64 = 26.0;
const TOP: f64 = 44.0;
/// Values that differ by more than this factor are drawn by their logarithms.
const LINEAR_MAX: f64 = 60.0;

impl Plot {
    /// The picture.
    pub(super) fn svg(&self) -> String {
        let height = TOP + ROW * self.bars.iter().map(|_| 1.0).sum::<f64>() + 14.0;
        let positive =
            || self.bars.iter().map(|bar| bar.value).filter(|value| *value > 0.0 && value.is_finite());
        let (least, most) = (positive().fold(f64::MAX, f64::min), positive().fold(0.0, f64::max));
        let is_wide = most / least > LINEAR_MAX;
        let scale = |value: f64| {
            let share = if is_wide {
                ((value / least).ln() + 1.0) / ((most / least).ln() + 1.0)
            } else {
                value / most
            };
            if share.is_finite() { share.clamp(0.0, 1.0) * (WIDTH - NAMES - VALUES) } else { 0.0 }
        };
        let note = if is_wide { ", logarithmic" } else { "" };
        let mut lines = vec![
            format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
                 font-family=\"sans-serif\" font-size=\"13\">"
            ),
            format!("<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>"),
            format!(
                "<text x=\"12\" y=\"24\" font-weight=\"bold\">{} ({}{note})</text>",
                escaped(&self.title),
                self.unit
            ),
        ];
        let mut y = TOP;
        for bar in &self.bars {
            let width = scale(bar.value);
            let colour = match bar.of {
                Of::Ours => "#1f6f8b",
                Of::Other => "#9aa5ab",
                Of::Goal => "#d9a441",
            };
            let text = y + 13.0;
            lines.push(format!(
                "<text x=\"{}\" y=\"{text:.1}\" text-anchor=\"end\">{}</text>",
                NAMES - 8.0,
                escaped(&bar.name)
            ));
            lines.push(format!(
                "<rect x=\"{NAMES}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"17\" fill=\"{colour}\"/>"
            ));
            lines.push(format!(
                "<text x=\"{:.1}\" y=\"{text:.1}\">{}</text>",
                NAMES + width + 6.0,
                short(bar.value)
            ));
            y += ROW;
        }
        lines.push("</svg>\n".to_owned());
        lines.join("\n")
    }
}

/// Three digits that count.
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_values_and_names_are_escaped() {
        let bars =
            vec![Bar::new("a<b", 1.0, Of::Ours), Bar::new("c", 2.0, Of::Other), Bar::new("d", 0.0, Of::Goal)];
        let svg = Plot { title: "t & u".to_owned(), unit: "s", bars }.svg();
        assert!(svg.contains("a&lt;b") && svg.contains("t &amp; u (s)"));
        for width in ["width=\"200.0\"", "width=\"400.0\"", "width=\"0.0\""] {
            assert!(svg.contains(width), "{width} in {svg}");
        }
    }

    #[test]
    fn values_far_apart_are_drawn_by_logarithms() {
        let bars = vec![Bar::new("a", 1.0, Of::Ours), Bar::new("b", 1_000_000.0, Of::Other)];
        let svg = Plot { title: "t".to_owned(), unit: "s", bars }.svg();
        assert!(svg.contains("(s, logarithmic)") && svg.contains("1000000"));
    }
}

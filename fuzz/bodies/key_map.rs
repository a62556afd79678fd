//! The map of keys of a campaign. Any text is read or refused with the number of a line; what is read is there in its line,
//! without blanks around it; written in quotes it is read again as the same.

use sealwright_client::campaign::key_map::{Line, parse};

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    let lines = match parse(text) {
        Ok(lines) => lines,
        Err((number, why)) => {
            let line = text.lines().nth(usize::try_from(number).unwrap() - 1).unwrap();
            assert!(!line.trim().is_empty(), "an empty line is refused: {why}");
            assert_eq!(parse(line), Err((1, why)), "a line is refused for what is in another");
            return;
        }
    };
    let mut last = 0;
    let mut written = String::new();
    for line in &lines {
        let Line { number, directory, key } = *line;
        assert!(number > last, "lines are in order, each once");
        last = number;
        let there = text.lines().nth(usize::try_from(number).unwrap() - 1).unwrap();
        let (from, to) = (there.find(directory).unwrap(), there.rfind(key).unwrap());
        assert!(from < to && there[from + directory.len()..].contains('='));
        assert!(!directory.is_empty() && !key.is_empty());
        written += &format!("{} = {} # {number} = \"\n", quoted(directory), quoted(key));
    }
    let again = parse(&written).unwrap();
    let pairs = |lines: &[Line<'_>]| -> Vec<(String, String)> {
        lines.iter().map(|line| (line.directory.to_owned(), line.key.to_owned())).collect()
    };
    assert_eq!(pairs(&again), pairs(&lines), "writing and reading changed the map");
}

/// Names that hold a quote are in none.
fn quoted(name: &str) -> String {
    if name.contains('"') { name.to_owned() } else { format!("\"{name}\"") }
}

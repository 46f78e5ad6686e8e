//! Foreign text: cleaned text has no control or hidden characters, stays within its bounds and contains no secret.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ralph_core::redact::{REDACTED, Redactor};
use ralph_core::text;

const SECRET: &str = "correct-horse-battery";

fuzz_target!(|data: &[u8]| {
    let Some((most, bytes)) = data.split_first() else {
        return;
    };
    let most = usize::from(*most);
    let foreign = &*String::from_utf8_lossy(bytes);
    cleaned(foreign);
    shortened(foreign, most);
    redacted(foreign, most);
});

fn cleaned(foreign: &str) {
    let clean = text::clean(foreign);
    assert!(!clean.chars().any(is_hidden), "{clean:?}");
    assert_eq!(clean.matches('\n').count(), foreign.matches('\n').count());
    assert!(clean.len() <= foreign.len() * 4);
    assert_eq!(text::clean(&clean), clean);
}

fn is_hidden(char: char) -> bool {
    (char.is_control() && char != '\n')
        || matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(char, '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}

fn shortened(foreign: &str, most: usize) {
    let line = text::clean_line(foreign, most);
    assert!(line.chars().count() <= most.max(1));
    assert!(!line.chars().any(|char| char == '\n' || is_hidden(char)), "{line:?}");
    assert_eq!(line.trim(), line);
    assert_eq!(text::clean_line(&line, most), line);
    let cut = text::truncate(foreign, most);
    assert!(cut.chars().count() <= most.max(1));
    if foreign.chars().count() <= most {
        assert_eq!(cut, foreign);
    } else {
        assert!(foreign.starts_with(cut.strip_suffix('…').unwrap()));
    }
}

fn redacted(foreign: &str, position: usize) {
    let redactor = Redactor::new(vec![SECRET.to_owned(), "short".to_owned()]);
    let at = foreign.char_indices().nth(position).map_or(foreign.len(), |(at, _)| at);
    let text = format!("{}{SECRET}{}", &foreign[..at], &foreign[at..]);
    let shown = redactor.redact(&text);
    assert!(!shown.contains(SECRET));
    assert!(shown.contains(REDACTED));
    assert!(shown.len() <= text.len() * REDACTED.len());
}

//! The client's limit on hook texts: the model receives a preview of a long text and the path of a file that holds the
//! whole. Lengths are in UTF-16 code units, because the client is written in JavaScript.

const INLINE_LIMIT: usize = 10_000;
const PREVIEW_LENGTH: usize = 2_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextDelivery {
    Inline(String),
    /// The text is written to a file; the model reads its path, size and beginning.
    Spilled {
        preview: String,
        size: String,
    },
}

pub fn deliver(text: &str) -> TextDelivery {
    let units = text.encode_utf16().count();
    if units <= INLINE_LIMIT {
        return TextDelivery::Inline(text.to_owned());
    }
    TextDelivery::Spilled { preview: preview(text).to_owned(), size: display_size(units) }
}

impl TextDelivery {
    /// The text that the model reads; `path` is the file that holds the whole text.
    pub fn delivered_text(&self, path: &str) -> String {
        match self {
            Self::Inline(text) => text.clone(),
            Self::Spilled { preview, size } => format!(
                "<persisted-output>\nOutput too large ({size}). Full output saved to: {path}\n\nPreview (first \
                 2KB):\n{preview}\n...\n</persisted-output>"
            ),
        }
    }
}

/// The first 2,000 units, cut at the last line break if there is one in the second half.
fn preview(text: &str) -> &str {
    let mut units = 0;
    let mut line = None;
    for (at, c) in text.char_indices() {
        if units + c.len_utf16() > PREVIEW_LENGTH {
            return text.get(..line.unwrap_or(at)).unwrap_or(text);
        }
        if c == '\n' && units > PREVIEW_LENGTH / 2 {
            line = Some(at);
        }
        units += c.len_utf16();
    }
    text
}

fn display_size(units: usize) -> String {
    let (unit, name) = if units < 1 << 20 { (1 << 10, "KB") } else { (1 << 20, "MB") };
    let tenths = (units * 20 + unit) / (unit * 2);
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole}{name}"),
        (whole, tenth) => format!("{whole}.{tenth}{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row was verified against the client, 2.1.325.
    #[test]
    fn spills_as_the_client_does() {
        let line_at = |at: usize| "y".repeat(at) + "\n" + &"z".repeat(20_000);
        let rows: [(String, Option<(&str, usize)>); 16] = [
            ("x".repeat(10_000), None),
            ("x".repeat(10_001), Some(("9.8KB", 2000))),
            ("é".repeat(10_000), None),
            ("é".repeat(10_001), Some(("9.8KB", 2000))),
            ("😀".repeat(5_000), None),
            ("😀".repeat(5_001), Some(("9.8KB", 1000))),
            (("y".repeat(99) + "\n").repeat(200), Some(("19.5KB", 1999))),
            (line_at(900), Some(("20.4KB", 2000))),
            (line_at(999), Some(("20.5KB", 2000))),
            (line_at(1000), Some(("20.5KB", 2000))),
            (line_at(1100), Some(("20.6KB", 1100))),
            ("x".repeat(10_240), Some(("10KB", 2000))),
            ("x".repeat(10_752), Some(("10.5KB", 2000))),
            ("x".repeat(1_048_540), Some(("1024KB", 2000))),
            ("x".repeat(1_048_576), Some(("1MB", 2000))),
            ("x".repeat(1_572_864), Some(("1.5MB", 2000))),
        ];
        for (text, wanted) in rows {
            let wanted = wanted.map_or_else(
                || TextDelivery::Inline(text.clone()),
                |(size, characters)| TextDelivery::Spilled {
                    preview: text.chars().take(characters).collect(),
                    size: size.to_owned(),
                },
            );
            assert_eq!(deliver(&text), wanted);
        }
    }

    /// The text equals that of the recorded request `additionalContext-100k-spilled`.
    #[test]
    fn names_the_file_of_a_spilled_text() {
        let text = "HEAD ".to_owned() + &"0123456789abcdef".repeat(6250);
        let spilled = deliver(&text);
        assert_eq!(
            spilled.delivered_text("/home/user/out.txt"),
            format!(
                "<persisted-output>\nOutput too large (97.7KB). Full output saved to: /home/user/out.txt\n\nPreview \
                 (first 2KB):\n{}\n...\n</persisted-output>",
                &text[..2000]
            )
        );
    }
}

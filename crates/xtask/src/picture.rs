//! Renders the pictures of the documentation: commands in a terminal, each from a real run, and pages in a browser.

pub(crate) mod page_pictures;
mod proved_project;

use crate::{PictureOptions, disk, print, shell};
use anstyle::{Color, RgbColor};
use anstyle_svg::{Palette, Term};
use anyhow::{Result, bail};

/// Colours of a dark terminal theme.
const BACKGROUND: RgbColor = RgbColor(0x16, 0x1b, 0x22);
const TEXT: RgbColor = RgbColor(0xe6, 0xed, 0xf3);
const PALETTE: Palette = Palette([
    BACKGROUND,
    RgbColor(0xff, 0x7b, 0x72),
    RgbColor(0x56, 0xd3, 0x64),
    RgbColor(0xe3, 0xb3, 0x41),
    RgbColor(0x79, 0xc0, 0xff),
    RgbColor(0xd2, 0xa8, 0xff),
    RgbColor(0x76, 0xe3, 0xea),
    TEXT,
    RgbColor(0x6e, 0x76, 0x81),
    RgbColor(0xff, 0xa1, 0x98),
    RgbColor(0x7e, 0xe7, 0x87),
    RgbColor(0xf2, 0xcc, 0x60),
    RgbColor(0xa5, 0xd6, 0xff),
    RgbColor(0xe2, 0xc5, 0xff),
    RgbColor(0xb3, 0xf0, 0xff),
    RgbColor(0xff, 0xff, 0xff),
]);

/// A picture of a command in a terminal.
struct TerminalPicture {
    path: &'static str,
    command: &'static str,
    /// Its output with colours, at the default width of eighty columns.
    output: fn() -> Result<String>,
}

const PICTURES: [TerminalPicture; 2] = [
    TerminalPicture { path: "docs/demo.svg", command: "ralph demo", output: demo_output },
    TerminalPicture {
        path: "docs/prove.svg",
        command: "ralph prove --hunks 10",
        output: proved_project::prove_output,
    },
];

pub(crate) fn run(options: &PictureOptions) -> Result<()> {
    for picture in &PICTURES {
        let drawn = render_picture(picture.command, &(picture.output)()?);
        let path = shell::repository_root().join(picture.path);
        if options.check {
            picture.compare(&disk::read_text(&path)?, &drawn)?;
        } else {
            disk::write_with_parents(&path, drawn.as_bytes())?;
            print::print_line(&format!("wrote `{}`", picture.path));
        }
    }
    if options.check { page_pictures::check(None) } else { page_pictures::take(None) }
}

impl TerminalPicture {
    fn compare(&self, stored: &str, drawn: &str) -> Result<()> {
        let Self { path, command, .. } = self;
        let (stored, drawn) = (picture_words(stored), picture_words(drawn));
        let differ = stored.iter().zip(&drawn).take_while(|(old, new)| old == new).count();
        if differ == stored.len().max(drawn.len()) {
            print::print_line(&format!("`{path}` shows what `{command}` prints"));
            return Ok(());
        }
        let around = |words: &[String]| {
            let from = differ.saturating_sub(4);
            words.iter().skip(from).take(8).cloned().collect::<Vec<_>>().join(" ")
        };
        bail!(
            "`{path}` is out of date: it shows `… {} …`, and `{command}` prints `… {} …`; \
             run `cargo xtask picture`",
            around(&stored),
            around(&drawn)
        )
    }
}

fn demo_output() -> Result<String> {
    let mut demo = shell::command(shell::build_program("release", "ralph")?);
    demo.arg("demo").env_clear().env("PATH", shell::path_variable()).env("CLICOLOR_FORCE", "1");
    Ok(String::from_utf8(shell::command_output(&mut demo)?)?)
}

fn render_picture(command: &str, shown: &str) -> String {
    let term = Term::new()
        .palette(PALETTE)
        .fg_color(Color::Rgb(TEXT))
        .bg_color(Color::Rgb(BACKGROUND))
        .min_width_px(0);
    let picture = term.render_svg(&format!("$ {command}\n\n{}", shown.trim_end()));
    // Browsers ignore `opacity` on a `tspan`.
    picture.replace(".dimmed { opacity: 0.4; }", ".dimmed { fill-opacity: 0.6; }")
}

/// The words of a picture, with times masked because they differ, and without line breaks because those move with them.
fn picture_words(picture: &str) -> Vec<String> {
    let text = picture.split_once("<text").map_or("", |(_, text)| text);
    let text: String =
        text.split('<').map(|part| part.split_once('>').map_or("", |(_, text)| text)).collect();
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let is_time = |word: &str| word.split(':').filter(|part| is_number(part)).count() == 3;
        match words.last_mut() {
            Some(last)
                if matches!(word.trim_end_matches([',', ';']), "ms" | "s" | "min")
                    && is_number(last) =>
            {
                "[time]".clone_into(last);
            }
            Some(last) if last == "[time]" && is_number(word) => {}
            Some(_) | None if is_time(word) => words.push("[time]".to_owned()),
            Some(_) | None => words.push(word.to_owned()),
        }
    }
    words
}

fn is_number(word: &str) -> bool {
    word.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_may_differ_between_pictures() {
        let words = |shown: &str| picture_words(&render_picture("ralph demo", shown));
        let one = words(
            "\u{1b}[31mheld\u{1b}[0m & gone  1 of 25 · 78 ms\n19:57:08  after 3\n    iterations",
        );
        assert_eq!(one, words("held & gone  1 of 25 · 1.2 s\n07:03:59  after\n  3 iterations"));
        assert_eq!(words("after 343 ms; done"), words("after 1.2 s; done"));
        assert_ne!(one, words("held & gone  2 of 25 · 78 ms\n19:57:08  after 3\n    iterations"));
        assert_eq!(
            one.join(" "),
            "$ ralph demo held &amp; gone 1 of 25 · [time] [time] after 3 iterations"
        );
    }
}

//! Desktop notifications, and the person's browser.

/// The command line that shows a notification. The texts are separate arguments, so no shell interprets them.
pub fn desktop_notifier(title: &str, message: &str) -> Vec<String> {
    if cfg!(target_os = "macos") {
        let script = [
            "on run argv",
            "display notification (item 2 of argv) with title (item 1 of argv)",
            "end run",
        ];
        let lines = script.iter().flat_map(|line| ["-e", line]);
        ["osascript"].into_iter().chain(lines).chain([title, message]).map(str::to_string).collect()
    } else {
        let message = escape_markup(message);
        ["notify-send", "--app-name=ralph", "--", title, &message].map(str::to_string).into()
    }
}

/// The command line that opens a link in the person's browser.
pub fn browser_command(link: &str) -> [String; 2] {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    [program.to_string(), link.to_string()]
}

/// Freedesktop notification servers interpret tags and entities in the message as HTML.
fn escape_markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

//! What a person does at the terminal.

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchKey {
    Char(char),
    Ctrl(char),
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
    Delete,
    Tab,
    BackTab,
}

/// Something a person did at the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PersonInput {
    Key(WatchKey),
    Paste(String),
    Click { column: u16, row: u16 },
    ScrollUp,
    ScrollDown,
}

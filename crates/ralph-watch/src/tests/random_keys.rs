//! No sequence of keys, sizes and pages breaks the board.

use super::frames::{board, opened_run};
use crate::canvas::TerminalLook;
use crate::glyphs::GlyphSet;
use crate::key_event::{PersonInput, WatchKey};
use crate::palette::ColorDepth;
use crate::sample_pages::{sample_board, sample_run};
use crate::watch_effect::{LoadedPage, WatchEvent};
use proptest::prelude::*;

fn any_key() -> impl Strategy<Value = WatchKey> {
    prop_oneof![
        4 => proptest::char::range(' ', '~').prop_map(WatchKey::Char),
        1 => any::<char>().prop_map(WatchKey::Char),
        1 => proptest::char::range('a', 'z').prop_map(WatchKey::Ctrl),
        4 => prop::sample::select(vec![
            WatchKey::Up,
            WatchKey::Down,
            WatchKey::Left,
            WatchKey::Right,
            WatchKey::PageUp,
            WatchKey::PageDown,
            WatchKey::Home,
            WatchKey::End,
            WatchKey::Enter,
            WatchKey::Escape,
            WatchKey::Backspace,
            WatchKey::Delete,
            WatchKey::Tab,
            WatchKey::BackTab,
        ]),
    ]
}

fn any_event() -> impl Strategy<Value = WatchEvent> {
    prop_oneof![
        12 => any_key().prop_map(|key| WatchEvent::Input(PersonInput::Key(key))),
        1 => (0_u16..200, 0_u16..70)
            .prop_map(|(columns, rows)| WatchEvent::Resized { columns, rows }),
        1 => (0_u16..200, 0_u16..70)
            .prop_map(|(column, row)| WatchEvent::Input(PersonInput::Click { column, row })),
        1 => ".{0,40}".prop_map(|text| WatchEvent::Input(PersonInput::Paste(text))),
        1 => any::<u64>().prop_map(WatchEvent::Time),
        1 => Just(()).prop_map(|()| WatchEvent::Loaded(LoadedPage::Run(Box::new(sample_run())))),
        1 => (0_usize..4).prop_map(|kept| {
            let mut page = sample_board();
            page.waiting.truncate(kept);
            page.ended.truncate(kept);
            WatchEvent::Loaded(LoadedPage::Board(Box::new(page)))
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn random_keys_and_sizes_never_panic(
        on_run in any::<bool>(),
        is_ascii in any::<bool>(),
        events in prop::collection::vec(any_event(), 0..40),
    ) {
        let mut state = if on_run { opened_run(80, 24) } else { board(80, 24) };
        let glyphs = if is_ascii { GlyphSet::Ascii } else { GlyphSet::Unicode };
        state.look = TerminalLook { glyphs, colors: ColorDepth::Named };
        for event in events {
            state.update(event);
            let buffer = state.draw();
            prop_assert_eq!(usize::from(buffer.area.width), state.columns);
            for cell in buffer.content() {
                let symbol = cell.symbol();
                prop_assert!(!symbol.chars().any(char::is_control), "{symbol:?}");
                prop_assert!(glyphs == GlyphSet::Unicode || symbol.is_ascii(), "{symbol:?}");
            }
        }
    }
}

//! The frame of every page: head, navigation, live indicator, help for keys.

use super::marks;
use maud::{DOCTYPE, Markup, html};

/// What the frame needs to know about a page.
#[derive(Debug, Default)]
pub(crate) struct PageFrame<'a> {
    pub(crate) title: &'a str,
    /// The page in the navigation.
    pub(crate) place: Option<NavigationPlace>,
    /// Where the page gets its updates, if it has any.
    pub(crate) events: Option<String>,
    /// The result of the action before this page.
    pub(crate) notice: Option<Markup>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NavigationPlace {
    Board,
    History,
    Queues,
    Stats,
    States,
}

const PLACES: [(NavigationPlace, &str, &str); 5] = [
    (NavigationPlace::Board, "/", "Board"),
    (NavigationPlace::History, "/history", "History"),
    (NavigationPlace::Queues, "/queues", "Queues"),
    (NavigationPlace::Stats, "/stats", "Stats"),
    (NavigationPlace::States, "/states", "States"),
];

/// A page with navigation and updates.
pub(crate) fn page(frame: &PageFrame<'_>, content: &Markup) -> Markup {
    let header = html! {
        nav aria-label="Pages" {
            ul {
                @for (place, path, name) in PLACES {
                    li {
                        @if frame.place == Some(place) { a href=(path) aria-current="page" { (name) } }
                        @else { a href=(path) { (name) } }
                    }
                }
            }
        }
        @if frame.events.is_some() {
            p.live #live role="status" aria-live="polite" data-state="off" { i aria-hidden="true" {} span { "Not live" } }
        }
    };
    let footer = html! {
        footer.foot {
            div.wrap {
                span { "Read from the journals on this machine. Nothing leaves it." }
                span.keys {
                    kbd { "j" } " " kbd { "k" } " move · " kbd { "Enter" } " open · " kbd { "/" } " filter · " kbd { "?" } " keys"
                }
            }
        }
        (keys_dialog())
    };
    document(frame, &header, content, &footer)
}

/// A page for a client without a session.
pub(crate) fn plain_page(frame: &PageFrame<'_>, content: &Markup) -> Markup {
    document(frame, &html! {}, content, &html! {})
}

fn document(frame: &PageFrame<'_>, header: &Markup, content: &Markup, footer: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { (frame.title) }
                link rel="icon" href="/favicon.svg";
                link rel="stylesheet" href="/style.css";
                script src="/live.js" defer {}
            }
            body data-events=[frame.events.as_deref()] {
                (marks::symbols())
                p.sr #news role="status" aria-live="polite" {}
                a.skip href="#main" { "Skip to content" }
                header.top {
                    div.wrap {
                        a.brand href="/" aria-label="ralph, board" {
                            svg viewBox="0 0 22 16" aria-hidden="true" {
                                circle cx="6" cy="8" r="5" fill="currentColor" {}
                                path d="M16 0v16" stroke="currentColor" stroke-width="3" {}
                            }
                            span { "ralph" }
                        }
                        (header)
                    }
                }
                main #main {
                    div.wrap {
                        @if let Some(notice) = &frame.notice { (notice) }
                        (content)
                    }
                }
                (footer)
            }
        }
    }
}

fn keys_dialog() -> Markup {
    html! {
        dialog #keys aria-labelledby="keys-h" {
            h2 #keys-h { "Keys" }
            dl {
                dt { kbd { "j" } " " kbd { "k" } } dd { "next, previous" }
                dt { kbd { "Enter" } } dd { "open" }
                dt { kbd { "/" } } dd { "filter" }
                dt { kbd { "b" } " " kbd { "h" } " " kbd { "q" } " " kbd { "s" } } dd { "board, history, queues, stats" }
                dt { kbd { "a" } } dd { "answer the question" }
                dt { kbd { "Esc" } } dd { "close" }
            }
            p { label.tick { input #letters type="checkbox" checked; " Single-letter keys" } }
            form method="dialog" { p.row-btns { button.btn { "Close" } } }
        }
    }
}

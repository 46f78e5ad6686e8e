//! What a person can do on the page of a run. Every form is the command of the same name.

use crate::access::{AccessKeys, SessionMark, TOKEN_FIELD};
use crate::run_source::RunDetails;
use crate::template::facts;
use maud::{Markup, html};
use ralph_core::units;
use ralph_deck::page::{BoardGroup, CellState, MatrixRow, OpenQuestion, RunPage, RunStanding};
use ralph_deck::person_action::{LONGEST_ACCEPT_REASON, LONGEST_MESSAGE, LONGEST_WAIVER_REASON};
use ralph_deck::{standing_wording, wording};

const WAIVER_TIMES: [(&str, &str); 4] =
    [("2h", "2 hours"), ("8h", "8 hours"), ("1d", "1 day"), ("7d", "7 days")];

/// Makes the tokens of the forms on a page of one session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FormKeys<'a> {
    pub(crate) access: &'a AccessKeys,
    pub(crate) session: SessionMark,
}

impl FormKeys<'_> {
    /// The hidden field of a form that posts to `path`.
    pub(crate) fn token(&self, path: &str) -> Markup {
        html! { input type="hidden" name=(TOKEN_FIELD) value=(self.access.form_token(self.session, path)); }
    }
}

fn action_path(page: &RunPage, action: &str) -> String {
    format!("/run/{}/{action}", page.row.run)
}

/// The question of the agent with a field to answer, or what waits for an approval with a button, if there is one.
pub(crate) fn question_box(page: &RunPage, forms: &FormKeys<'_>) -> Markup {
    let open = page.row.question.as_ref();
    let path = action_path(page, "tell");
    html! {
        div #question {
            @if let Some((question, name)) = open.and_then(|open| Some((open, open.approval.as_ref()?))) {
                (approval_box(page, question, name, forms))
            } @else if let Some(question) = open {
                section.box.you.ask aria-labelledby="h-q" {
                    h2 #h-q { "The agent asks" }
                    blockquote { (question.text) }
                    form method="post" action=(path) data-keep {
                        (forms.token(&path))
                        label for="answer" { "Your answer" }
                        textarea #answer name="text" maxlength=(LONGEST_MESSAGE) required aria-describedby="answer-hint" {}
                        p.row-btns {
                            button.btn.go { @if page.row.needs_runner { "Send the answer" } @else { "Answer and continue" } }
                            span.hint #answer-hint {
                                "Same as " code { "ralph tell " (page.row.run) " \"…\"" }
                                @if page.row.needs_runner { ". The agent reads it when the run is resumed: " code { "ralph run --resume " (page.row.run) } }
                                @if let Some(until_ms) = question.until_ms {
                                    ". Without an answer, the run is parked at " (facts::time(until_ms, page.now_ms))
                                    (facts::in_time(until_ms, page.now_ms))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What a person has to approve. An answer would approve nothing.
fn approval_box(
    page: &RunPage,
    question: &OpenQuestion,
    name: &str,
    forms: &FormKeys<'_>,
) -> Markup {
    let path = action_path(page, "approve");
    html! {
        section.box.you.ask aria-labelledby="h-q" {
            h2 #h-q { (wording::capitalized(standing_wording::AWAITS_APPROVAL)) }
            blockquote { (question.text) }
            form method="post" action=(path) {
                (forms.token(&path))
                input type="hidden" name="name" value=(name);
                p.row-btns {
                    button.btn.go { "Approve " (name) }
                    span.hint {
                        "Review the work first. Same as " code { "ralph approve " (page.row.run) " " (name) }
                        ": while a run holds an agent, ralph asks for a word at the terminal of " code { "ralph serve" }
                        @if let Some(until_ms) = question.until_ms {
                            ". Without an approval, the run is parked at " (facts::time(until_ms, page.now_ms))
                            (facts::in_time(until_ms, page.now_ms))
                        }
                    }
                }
            }
        }
    }
}

/// Pause or resume, tell, waive, change limits, cancel; accept once the run has ended.
pub(crate) fn tools(details: &RunDetails, forms: &FormKeys<'_>) -> Markup {
    let page = &details.page;
    html! {
        div #tools {
            @if !details.has_ended {
                div.tools {
                    @if page.row.needs_runner { (resume_command(page)) }
                    @else { (pause_or_resume(page, forms)) }
                    (tell(page, forms))
                    (waive(page, forms))
                    (limits(page, forms))
                    (cancel(page, forms))
                }
            }
            @if let RunStanding::Ended(status) = page.row.standing {
                @let can_be_closed = page.row.group() == BoardGroup::WaitingForYou;
                @if status.is_acceptable() || can_be_closed {
                    div.tools {
                        @if status.is_acceptable() { (accept(page, forms)) }
                        @if can_be_closed { (close(page, forms)) }
                    }
                }
            }
            @if !details.waivers.is_empty() {
                ul.waivers aria-label="Waivers" {
                    @for waiver in &details.waivers {
                        li {
                            span { code { (waiver.requirement) } " is waived by " (waiver.by) " until " (facts::time(waiver.until_ms, page.now_ms)) ": " (waiver.why) }
                            @if !details.has_ended {
                                @let path = action_path(page, "require");
                                form method="post" action=(path) {
                                    (forms.token(&path))
                                    input type="hidden" name="requirement" value=(waiver.requirement);
                                    button.btn.text { "Require it again" }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A runner needs a terminal of its own, so the page has no button for it.
fn resume_command(page: &RunPage) -> Markup {
    html! {
        p.hint { "To continue, run " code { "ralph run --resume " (page.row.run) } " in a terminal" }
    }
}

fn pause_or_resume(page: &RunPage, forms: &FormKeys<'_>) -> Markup {
    let (action, name) = match page.row.standing {
        RunStanding::Paused | RunStanding::Orphaned | RunStanding::Parked(_) => {
            ("resume", "Resume")
        }
        RunStanding::Working
        | RunStanding::Waiting
        | RunStanding::Asks
        | RunStanding::Unprotected
        | RunStanding::Accepted
        | RunStanding::Ended(_) => ("pause", "Pause"),
    };
    let path = action_path(page, action);
    html! {
        form method="post" action=(path) {
            (forms.token(&path))
            button.btn title={ "ralph " (action) " " (page.row.run) } { (name) }
        }
    }
}

fn tell(page: &RunPage, forms: &FormKeys<'_>) -> Markup {
    let path = action_path(page, "tell");
    html! {
        details #tool-tell name="tool" {
            summary.btn { "Tell the agent…" }
            form.panel method="post" action=(path) data-keep {
                (forms.token(&path))
                label for="tell" { @if page.row.needs_runner { "Read when the run is resumed" } @else { "Read at the next stop" } }
                textarea #tell name="text" maxlength=(LONGEST_MESSAGE) required {}
                p { button.btn.go { "Send" } }
                p.hint { "Same as " code { "ralph tell " (page.row.run) " \"…\"" } }
            }
        }
    }
}

fn waive(page: &RunPage, forms: &FormKeys<'_>) -> Markup {
    let path = action_path(page, "waive");
    let is_waived =
        |row: &MatrixRow| row.cells.last().is_some_and(|cell| cell.state == CellState::Advisory);
    let open: Vec<_> = page
        .matrix
        .rows
        .iter()
        .filter(|row| row.met_since.is_none() && !is_waived(row))
        .map(|row| row.name.as_str())
        .collect();
    html! {
        @if !open.is_empty() {
            details #tool-waive name="tool" {
                summary.btn { "Waive…" }
                form.panel method="post" action=(path) data-keep {
                    (forms.token(&path))
                    label for="w-req" { "Requirement" }
                    select #w-req name="requirement" { @for name in open { option value=(name) { (name) } } }
                    label for="w-until" { "For" }
                    select #w-until name="until" { @for (value, name) in WAIVER_TIMES { option value=(value) { (name) } } }
                    label for="w-why" { "Reason, shown in every report" }
                    input #w-why type="text" name="why" maxlength=(LONGEST_WAIVER_REASON) required;
                    p { button.btn.go { "Waive" } }
                    p.hint { "It is still measured, but blocks no stop. A run that ends during a waiver ends claimed. Same as " code { "ralph waive" }
                        ": while a run holds an agent, ralph asks for a word at the terminal of " code { "ralph serve" } }
                }
            }
        }
    }
}

/// An empty field keeps its limit.
fn limits(page: &RunPage, forms: &FormKeys<'_>) -> Markup {
    let path = action_path(page, "limits");
    let row = &page.row;
    let iterations = row.max_iterations.map(|most| most.to_string());
    let fields = [
        ("iterations", "Iterations", iterations, "40"),
        ("duration", "Time", row.max_duration_ms.map(units::format_duration), "90m"),
        ("cost", "Cost in US dollars", row.max_micro_usd.map(units::format_usd), "50"),
    ];
    html! {
        details #tool-limits name="tool" {
            summary.btn { "Limits…" }
            form.panel method="post" action=(path) data-keep {
                (forms.token(&path))
                @for (name, label, now, example) in fields {
                    @let id = format!("l-{name}");
                    label for=(id) { (label) ", now " (now.as_deref().unwrap_or("without a limit")) }
                    input id=(id) type="text" name=(name) maxlength="20" autocomplete="off" placeholder=(example);
                }
                p { button.btn.go { "Change" } }
                p.hint { "In total, from the start of the run; 0 means no limit, and an empty field changes nothing. Same as " code { "ralph limits" }
                    ": while a run holds an agent, ralph asks for a word at the terminal of " code { "ralph serve" } }
            }
        }
    }
}

/// For a run that ended without proof.
fn accept(page: &RunPage, forms: &FormKeys<'_>) -> Markup {
    let path = action_path(page, "accept");
    html! {
        details #tool-accept name="tool" {
            summary.btn { "Accept…" }
            form.panel method="post" action=(path) data-keep {
                (forms.token(&path))
                label for="a-why" { "Reason, shown in every report" }
                input #a-why type="text" name="why" maxlength=(LONGEST_ACCEPT_REASON);
                p { button.btn.go { "Accept as verified" } }
                p.hint { "Review the change first. The run then counts as verified, with your name. Same as " code { "ralph accept " (page.row.run) }
                    ": ralph asks for a word at the terminal of " code { "ralph serve" } }
            }
        }
    }
}

/// For a run that ended and waits for a person. The command is the same as that of a cancellation.
fn close(page: &RunPage, forms: &FormKeys<'_>) -> Markup {
    let path = action_path(page, "cancel");
    html! {
        details #tool-cancel name="tool" {
            summary.btn.text { "Close…" }
            form.panel method="post" action=(path) {
                (forms.token(&path))
                p { "It keeps its status and no longer waits for you. Files and checkpoints stay. Same as " code { "ralph cancel " (page.row.run) } "." }
                p { button.btn { "Close run " (page.row.run) } }
            }
        }
    }
}

fn cancel(page: &RunPage, forms: &FormKeys<'_>) -> Markup {
    let path = action_path(page, "cancel");
    html! {
        details #tool-cancel name="tool" {
            summary.btn.text { "Cancel…" }
            form.panel method="post" action=(path) {
                (forms.token(&path))
                p { "Ends the run for good. The agent is free at once; files and checkpoints stay." }
                p { button.btn.stop { "Cancel run " (page.row.run) } }
            }
        }
    }
}

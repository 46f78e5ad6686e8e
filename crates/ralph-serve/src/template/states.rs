//! The page that explains every state of a run.

use super::facts;
use super::run_forms::FormKeys;
use maud::{Markup, html};
use ralph_core::status::RunStatus;
use ralph_deck::page::RunStanding;

const NOTIFY_PATH: &str = "/notify/test";

pub(crate) fn states_page(forms: &FormKeys<'_>) -> Markup {
    let (ends, open): (Vec<_>, Vec<_>) =
        RunStanding::ALL.into_iter().partition(|standing| standing.has_ended());
    html! {
        div.page-head { div {
            h1 { "States" }
            p.detail { "Every state with its mark. The colour shows the attention that a run needs." }
        } }
        section aria-labelledby="h-open" {
            div.head { h2 #h-open { "Before the end" } }
            ul.gallery { @for standing in open { (state_card(standing)) } }
        }
        section aria-labelledby="h-ends" {
            div.head { h2 #h-ends { "Ends" } span.quiet { "only the first two are a success" } }
            ul.gallery { @for standing in ends { (state_card(standing)) } }
        }
        section aria-labelledby="h-notify" {
            div.head { h2 #h-notify { "Notifications" } }
            p.hint { "Set in " code { "~/.ralph/config.toml" } ". Same as " code { "ralph notify --test" } "." }
            form method="post" action=(NOTIFY_PATH) {
                (forms.token(NOTIFY_PATH))
                p.row-btns { button.btn { "Send a test notification" } }
            }
        }
    }
}

fn state_card(standing: RunStanding) -> Markup {
    html! {
        li class=(facts::hue(standing)) id={ "state-" (standing.key()) } {
            p.status {
                (facts::standing_mark(standing))
                span.word { (standing.label()) }
                @if let RunStanding::Ended(status) = standing { span.code { "exit " (status.exit_code()) } }
            }
            p { (meaning(standing)) }
        }
    }
}

fn meaning(standing: RunStanding) -> &'static str {
    match standing {
        RunStanding::Working => {
            "The agent is working. ralph holds it if it wants to stop too early."
        }
        RunStanding::Waiting => {
            "It waits for a rate limit, the network, or something that the agent named, and continues by itself."
        }
        RunStanding::Asks => "The agent asked something that only a person can decide.",
        RunStanding::Paused => "A person paused it. The agent may stop freely.",
        RunStanding::Orphaned => "Its session or its runner is gone. Resume it, or cancel it.",
        RunStanding::Unprotected => {
            "No hook of its session reaches ralph, so nothing holds it. Its note says why, and how to fix it."
        }
        RunStanding::Parked(_) => "Its runner gave up. It continues when a person resumes it.",
        RunStanding::Accepted => {
            "It ended without proof, and a person reviewed and accepted the work. It counts as verified."
        }
        RunStanding::Ended(status) => match status {
            RunStatus::Verified => {
                "All requirements are met, ralph measured every one of them, and a test fails without the change or a judge that counts confirms the goal."
            }
            RunStatus::Green => {
                "Every requirement is met, but no test fails without the change, or nothing could be compared."
            }
            RunStatus::Claimed => {
                "Everything is met, but something rests on the agent’s word or on a waiver."
            }
            RunStatus::Exhausted => "A limit on iterations, time or cost was reached.",
            RunStatus::Stuck => "The last stops made no progress.",
            RunStatus::NeedsHuman => "Only a person can decide how to continue.",
            RunStatus::NeedsReview => {
                "Old tests fail on the new code, or something that decides what is checked was changed. A person has to look at it."
            }
            RunStatus::GateBroken => "A gate gave no result twice in a row, so ralph cannot tell.",
            RunStatus::RateLimited => "The provider’s limit lasts longer than the run may wait.",
            RunStatus::Cancelled => "A person ended it.",
            RunStatus::Overridden => "The host ended a turn that ralph had held.",
            RunStatus::Crashed => "The agent or its runner failed.",
        },
    }
}

//! The report as one HTML file: no script, no link to another file, a style that its own content security policy names
//! by its hash. The templates escape every value.

use super::RunReport;
use super::report_lines::{
    self, LEFT_OUT_AFTER, ReportPart, attention_class, line_count, split_code, time_of_day,
};
use super::requirement_strip::{LEGEND, strip_table};
use crate::page::ProofTable;
use crate::wording;
use base64ct::{Base64, Encoding};
use maud::{DOCTYPE, Markup, html};
use ralph_core::redact::Redactor;
use ralph_core::text;
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("style.css");
const LONGEST_GOAL: usize = 6_000;
const LONGEST_ANSWER: usize = 1_000;
/// The width of the longest bar of changed lines.
const BAR_WIDTH: u64 = 60;

pub fn render_html(report: &RunReport, redactor: &Redactor) -> String {
    let page = HtmlPage { report, redactor };
    page.document().into_string()
}

/// The policy of the page: nothing may be loaded or run, and no other style than its own applies.
pub fn content_policy() -> String {
    let hash = Base64::encode_string(&Sha256::digest(STYLE));
    format!("default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'")
}

struct HtmlPage<'a> {
    report: &'a RunReport,
    redactor: &'a Redactor,
}

/// The style as it is, because its hash is in the policy of the page.
fn style_text() -> Markup {
    #[expect(
        clippy::disallowed_types,
        reason = "a file of this crate, without any text from elsewhere"
    )]
    use maud::PreEscaped;
    PreEscaped(STYLE.to_string())
}

impl HtmlPage<'_> {
    fn document(&self) -> Markup {
        let row = &self.report.page.row;
        let status = self.report.page.headline();
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(content_policy());
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="referrer" content="no-referrer";
                    title { (status) ": " (self.redacted(&row.title)) }
                    style { (style_text()) }
                }
                body {
                    main {
                        (self.head())
                        (self.rests_on())
                        (self.look_first())
                        (self.goal())
                        (self.evidence())
                        (self.requirements())
                        (self.events())
                        (self.questions())
                        (self.cost())
                        (self.changes())
                        (self.checks())
                    }
                }
            }
        }
    }

    fn redacted(&self, foreign: &str) -> String {
        self.redactor.redact(foreign)
    }

    fn line(&self, parts: &[ReportPart]) -> Markup {
        html! {
            @for part in parts {
                @match part {
                    ReportPart::Own(text) => (text),
                    ReportPart::Foreign(text) => (self.redacted(text)),
                    ReportPart::Sentence(text) => (code_text(&self.redacted(text))),
                    ReportPart::Code(text) => code { (self.redacted(text)) },
                }
            }
        }
    }

    fn head(&self) -> Markup {
        let row = &self.report.page.row;
        let class = format!("st {}", attention_class(self.report.page.attention()));
        html! {
            p class="meta" {
                span { "ralph report · run " span class="mono" { (row.run) } " · " (self.redacted(&row.project_name)) }
                span { (report_lines::time_range(&self.report.page)) }
            }
            p class=(class) { span class="mark" aria-hidden="true" { (if self.report.page.journal_edit.is_some() { '!' } else { row.standing.mark() }) } (wording::capitalized(&self.report.page.headline())) }
            h1 { (self.redacted(&row.title)) }
            p class="sum" { (self.report.sentence) }
        }
    }

    fn rests_on(&self) -> Markup {
        html! {
            h2 { "What that rests on" }
            dl class="rest" {
                @for (label, line) in report_lines::rests_on(self.report) {
                    dt { (label) }
                    dd { (self.line(&line)) }
                }
            }
        }
    }

    fn look_first(&self) -> Markup {
        let (lines, more) = report_lines::look_first(&self.report.page);
        html! {
            h2 { "Look at this first" }
            @if lines.is_empty() {
                p { (report_lines::nothing_stands_out(&self.report.page)) }
            } @else {
                ol class="first" {
                    @for line in &lines { li { span { (self.line(line)) } } }
                }
            }
            @if more > 0 {
                p class="q" { (more) " more: " code { "ralph report " (self.report.page.row.run) " --json" } }
            }
        }
    }

    fn goal(&self) -> Markup {
        let goal = text::truncate(&self.redacted(&self.report.page.goal), LONGEST_GOAL);
        html! {
            h2 { "What was asked" }
            blockquote { (goal) }
        }
    }

    fn evidence(&self) -> Markup {
        let rows = report_lines::evidence(&self.report.page);
        html! {
            h2 { "Evidence" }
            @if rows.is_empty() {
                p { "No gate has a result on record." }
            } @else {
                table {
                    thead { tr {
                        th scope="col" { "Gate" }
                        th scope="col" { "Result" }
                        th scope="col" { "Tests" }
                        th scope="col" class="x" { "Where" }
                        th scope="col" { "Checkpoint" }
                        th scope="col" class="n" { "Took" }
                    } }
                    tbody {
                        @for row in &rows {
                            tr {
                                th scope="row" { (self.redacted(&row.gate.name)) }
                                td { (sign(row.passed)) " " (self.redacted(&row.gate.outcome)) }
                                td { (row.tests) }
                                td class="x" { (row.site) }
                                td { (row.content) }
                                td class="n" { (row.took) }
                            }
                        }
                    }
                }
            }
            @if !self.report.page.judges.is_empty() { (self.judges()) }
            @if let Some(proof) = &self.report.page.proof { (self.proof(proof)) }
        }
    }

    fn judges(&self) -> Markup {
        html! {
            h2 { "Judges " span class="q" { "opinions, not measurements" } }
            table {
                thead { tr {
                    th scope="col" { "Judge" }
                    th scope="col" { "Kind" }
                    th scope="col" { "Verdict" }
                    th scope="col" { "Model" }
                    th scope="col" class="n" { "Asked" }
                    th scope="col" { "Usage" }
                } }
                tbody {
                    @for judge in &self.report.page.judges {
                        tr {
                            th scope="row" { (self.redacted(&judge.name)) }
                            td { (judge.kind.name()) }
                            td { (verdict_sign(judge.mark())) " " (self.redacted(&judge.verdict())) }
                            td { (self.redacted(judge.model.as_deref().unwrap_or_default())) }
                            td class="n" { (judge.asked) }
                            td { (judge.usage()) }
                        }
                    }
                }
            }
        }
    }

    fn proof(&self, proof: &ProofTable) -> Markup {
        html! {
            h2 { "Old and new tests on old and new code" }
            table {
                thead { tr {
                    th scope="col" { "Run" }
                    th scope="col" { "Code" }
                    th scope="col" { "Tests" }
                    th scope="col" { "Result" }
                } }
                tbody {
                    @for row in &proof.rows {
                        tr {
                            th scope="row" { (row.name) }
                            td { (row.code) }
                            td { (row.tests) }
                            td { @if let Some(passed) = row.passed { (sign(passed)) " " } (self.redacted(&row.result)) }
                        }
                    }
                }
            }
            @for doubt in &proof.doubts { p class="q" { "Doubt: " (self.redacted(doubt)) } }
        }
    }

    fn requirements(&self) -> Markup {
        let matrix = &self.report.page.matrix;
        html! {
            @if !matrix.rows.is_empty() {
                h2 { "Requirements, stop by stop " span class="q" { (LEGEND) } }
                (strip_table(matrix, self.redactor))
            }
            @if !matrix.always_met.is_empty() {
                p class="q" { "Met at every stop: " (self.redacted(&matrix.always_met.join(", "))) }
            }
        }
    }

    fn events(&self) -> Markup {
        let (events, left_out) = report_lines::events(&self.report.page);
        html! {
            h2 { "What happened" }
            table class="tl" {
                tbody {
                    @for (index, event) in events.iter().enumerate() {
                        @if index == LEFT_OUT_AFTER && left_out > 0 {
                            tr { td {} td { (left_out) " more: " code { "ralph log " (self.report.page.row.run) } } }
                        }
                        tr {
                            td { (time_of_day(event.at_ms())) }
                            td { (self.line(&report_lines::event_line(event))) }
                        }
                    }
                }
            }
        }
    }

    fn questions(&self) -> Markup {
        let cut = |text: &str| text::truncate(&self.redacted(text), LONGEST_ANSWER);
        html! {
            @if !self.report.page.questions.is_empty() { h2 { "Questions" } }
            @for question in &self.report.page.questions {
                p class="q" { (time_of_day(question.asked_ms)) " the agent asked:" }
                blockquote { (cut(&question.question)) }
                @match &question.answer {
                    Some(answer) => {
                        p class="q" { "Answered" @if let Some(by) = &question.by { " by " (self.redacted(by)) } ":" }
                        blockquote { (cut(answer)) }
                    }
                    None => p class="q" { "Not answered." },
                }
            }
        }
    }

    fn cost(&self) -> Markup {
        let page = &self.report.page;
        html! {
            @if !page.costs.is_empty() {
                h2 { "Cost by session" }
                table {
                    thead { tr {
                        th scope="col" { "Session" }
                        th scope="col" { "From" }
                        th scope="col" class="x" { "Model" }
                        th scope="col" class="n" { "Turns" }
                        th scope="col" class="n" { "Tokens" }
                        th scope="col" class="n" { "Cost" }
                    } }
                    tbody {
                        @for [number, from, model, turns, tokens, cost] in page.costs.iter().map(report_lines::cost_fields) {
                            tr {
                                th scope="row" { (number) }
                                td { (from) }
                                td class="x" { (self.redacted(&model)) }
                                td class="n" { (turns) }
                                td class="n" { (tokens) }
                                td class="n" { (cost) }
                            }
                        }
                    }
                }
                p class="q" { (report_lines::cost_note(page)) }
            }
        }
    }

    fn changes(&self) -> Markup {
        let Some((files, left_out)) = report_lines::changed_files(self.report) else {
            return html! {};
        };
        let most = files.iter().map(|file| report_lines::changed_lines(file)).max().unwrap_or(0);
        html! {
            h2 { "Changes by file " span class="q" { (report_lines::change_summary(self.report)) } }
            table {
                thead { tr {
                    th scope="col" { "File" }
                    td class="x" {}
                    th scope="col" class="n" { "Added" }
                    th scope="col" class="n" { "Removed" }
                } }
                tbody {
                    @for file in &files {
                        tr {
                            td {
                                code { (self.redacted(&file.path)) }
                                @if file.status != "modified" { " " span class="q" { (file.status) } }
                            }
                            td class="x" { (change_bar(file.added, file.removed, most)) }
                            td class="n" { (line_count(file.added, '+')) }
                            td class="n" { (line_count(file.removed, '−')) }
                        }
                    }
                }
            }
            @if left_out > 0 { p class="q" { (text::count_noun(left_out, "more file")) } }
        }
    }

    fn checks(&self) -> Markup {
        html! {
            div class="check" {
                "Check the work against this report, and the report against the repository:"
                @for command in report_lines::check_commands(self.report) { code { (command) } }
            }
        }
    }
}

fn code_text(sentence: &str) -> Markup {
    html! {
        @for (part, is_code) in split_code(sentence) {
            @if is_code { code { (part) } } @else { (part) }
        }
    }
}

fn sign(passed: bool) -> Markup {
    html! {
        @if passed { span class="ok" { "✓" } } @else { span class="no" { "✗" } }
    }
}

fn verdict_sign(mark: &'static str) -> Markup {
    match mark {
        "?" => html! { span { "?" } },
        mark => sign(mark == "✓"),
    }
}

fn change_bar(added: Option<u64>, removed: Option<u64>, most: u64) -> Markup {
    let scaled = |count: Option<u64>| {
        count.unwrap_or(0).saturating_mul(BAR_WIDTH).checked_div(most).unwrap_or(0)
    };
    let (added, removed) = (scaled(added), scaled(removed));
    html! {
        svg viewBox=(format!("0 0 {BAR_WIDTH} 8")) width=(BAR_WIDTH) height="8" aria-hidden="true" {
            rect class="add" width=(added) height="8" {}
            rect class="del" x=(added) width=(removed) height="8" {}
        }
    }
}

//! The report as Markdown. Foreign text is in code spans and code blocks that it cannot close, as in the body of a pull
//! request.

use super::RunReport;
use super::report_lines::{
    self, LEFT_OUT_AFTER, ReportPart, ReportText, line_count, split_code, time_of_day,
};
use super::requirement_strip::describe_row;
use ralph_core::redact::Redactor;
use ralph_core::text::count_noun;
use ralph_drive::forge::{code_fence, code_span};

const LONGEST_GOAL: usize = 6_000;
const LONGEST_ANSWER: usize = 1_000;

pub fn render_markdown(report: &RunReport, redactor: &Redactor) -> String {
    let mut page = MarkdownPage { out: String::new(), redactor };
    let (row, run) = (&report.page.row, &report.page.row.run);
    page.add(&format!("# {}: ", report.page.headline()));
    page.add_line(&[ReportPart::Foreign(row.title.clone())]);
    page.add(&format!("\n{}\n\n", report.sentence));
    page.add(&format!("Run `{run}` of "));
    page.add_line(&[ReportPart::Code(row.project_name.clone())]);
    page.add(&format!("{}\n", report_lines::time_range(&report.page)));
    page.add("\n## What that rests on\n\n");
    for (label, line) in report_lines::rests_on(report) {
        let label = if label.is_empty() { String::new() } else { format!("**{label}** ") };
        page.add_item(&label, &line);
    }
    page.look_first(report);
    page.add("\n## What was asked\n\n");
    page.add(&code_fence(&report.page.goal, LONGEST_GOAL, redactor));
    page.evidence(report);
    page.requirements(report);
    page.events(report);
    page.questions(report);
    page.cost(report);
    page.changes(report);
    page.add("\n## Check it\n\n```sh\n");
    for command in report_lines::check_commands(report) {
        page.add(&format!("{command}\n"));
    }
    page.add("```\n");
    page.out
}

struct MarkdownPage<'a> {
    out: String,
    redactor: &'a Redactor,
}

impl MarkdownPage<'_> {
    fn add(&mut self, own: &str) {
        self.out.push_str(own);
    }

    fn line(&self, parts: &[ReportPart]) -> String {
        let part = |part: &ReportPart| match part {
            ReportPart::Own(text) => text.clone(),
            ReportPart::Foreign(text) if is_inert(text) => self.redactor.redact(text),
            ReportPart::Sentence(text) => self.sentence(text),
            ReportPart::Foreign(text) | ReportPart::Code(text) => code_span(text, self.redactor),
        };
        parts.iter().map(part).collect()
    }

    /// A code span for each name, if the words around them need none; otherwise one for the whole sentence.
    fn sentence(&self, foreign: &str) -> String {
        // Redacted as a whole, because a secret can contain a backtick.
        let sentence = self.redactor.redact(foreign);
        let parts = split_code(&sentence);
        if !parts.iter().all(|(part, is_code)| *is_code || is_inert(part.trim_start())) {
            return code_span(&sentence, self.redactor);
        }
        let part = |(part, is_code): (&str, bool)| {
            if is_code { code_span(part, self.redactor) } else { part.to_string() }
        };
        parts.into_iter().map(part).collect()
    }

    fn add_line(&mut self, parts: &[ReportPart]) {
        let line = self.line(parts);
        self.out.push_str(&line);
        self.out.push('\n');
    }

    fn add_item(&mut self, label: &str, line: &ReportText) {
        let line = self.line(line);
        self.out.push_str(&format!("- {label}{line}\n"));
    }

    /// Foreign text in a table. A bar would end the cell even in a code span, so it becomes one that only looks like it.
    fn cell(&self, foreign: &str) -> String {
        if foreign.is_empty() || is_inert(foreign) {
            return self.redactor.redact(foreign);
        }
        code_span(&foreign.replace('|', "│"), self.redactor)
    }

    fn look_first(&mut self, report: &RunReport) {
        let (lines, more) = report_lines::look_first(&report.page);
        self.add("\n## Look at this first\n\n");
        if lines.is_empty() {
            self.add(&format!("{}\n", report_lines::nothing_stands_out(&report.page)));
        }
        for (index, line) in lines.iter().enumerate() {
            let line = self.line(line);
            self.add(&format!("{}. {line}\n", index + 1));
        }
        if more > 0 {
            let run = &report.page.row.run;
            self.add(&format!("\n{more} more: `ralph report {run} --json`\n"));
        }
    }

    fn evidence(&mut self, report: &RunReport) {
        self.add("\n## Evidence\n\n");
        if report.page.gates.is_empty() {
            self.add("No gate has a result on record.\n");
        } else {
            self.add("| Gate | Result | Tests | Where | Checkpoint | Took |\n|---|---|---|---|---|--:|\n");
        }
        for row in report_lines::evidence(&report.page) {
            let mark = if row.passed { "✓" } else { "✗" };
            let (name, outcome) = (self.cell(&row.gate.name), self.cell(&row.gate.outcome));
            let outcome = if row.passed { "passed".to_string() } else { outcome };
            let (tests, site) = (&row.tests, row.site);
            let (content, took) = (&row.content, &row.took);
            self.add(&format!(
                "| {name} | {mark} {outcome} | {tests} | {site} | {content} | {took} |\n"
            ));
        }
        if !report.page.judges.is_empty() {
            self.add("\nOpinions, not measurements:\n\n| Judge | Kind | Verdict | Model | Asked | Usage |\n|---|---|---|---|--:|---|\n");
        }
        for judge in &report.page.judges {
            let mark = judge.mark();
            let (name, verdict) = (self.cell(&judge.name), self.cell(&judge.verdict()));
            let model = self.cell(judge.model.as_deref().unwrap_or_default());
            let (kind, asked, usage) = (judge.kind.name(), judge.asked, judge.usage());
            self.add(&format!(
                "| {name} | {kind} | {mark} {verdict} | {model} | {asked} | {usage} |\n"
            ));
        }
        if let Some(proof) = &report.page.proof {
            self.add("\n| Run | Code | Tests | Result |\n|---|---|---|---|\n");
            for row in &proof.rows {
                let result = self.cell(&row.result);
                self.add(&format!("| {} | {} | {} | {result} |\n", row.name, row.code, row.tests));
            }
            for doubt in &proof.doubts {
                self.add("\nDoubt: ");
                self.add_line(&[ReportPart::Foreign(doubt.clone())]);
            }
        }
    }

    fn requirements(&mut self, report: &RunReport) {
        let matrix = &report.page.matrix;
        if matrix.rows.is_empty() && matrix.always_met.is_empty() {
            return;
        }
        self.add("\n## Requirements, stop by stop\n\n");
        for row in &matrix.rows {
            let line = [
                ReportPart::Code(row.name.clone()),
                ReportPart::Own(format!(": {}", describe_row(matrix, row))),
            ];
            self.add_item("", &line.into());
        }
        if !matrix.always_met.is_empty() {
            let names = matrix.always_met.join(", ");
            let line =
                vec![ReportPart::Own("met at every stop: ".into()), ReportPart::Foreign(names)];
            self.add_item("", &line);
        }
    }

    fn events(&mut self, report: &RunReport) {
        self.add("\n## What happened\n\n");
        let (events, left_out) = report_lines::events(&report.page);
        for (index, event) in events.iter().enumerate() {
            if index == LEFT_OUT_AFTER && left_out > 0 {
                let run = &report.page.row.run;
                self.add(&format!("- {left_out} more: `ralph log {run}`\n"));
            }
            let line = report_lines::event_line(event);
            self.add_item(&format!("{} ", time_of_day(event.at_ms())), &line);
        }
    }

    fn questions(&mut self, report: &RunReport) {
        if report.page.questions.is_empty() {
            return;
        }
        self.add("\n## Questions\n");
        for question in &report.page.questions {
            self.add(&format!("\n{} the agent asked:\n\n", time_of_day(question.asked_ms)));
            self.add(&code_fence(&question.question, LONGEST_ANSWER, self.redactor));
            match &question.answer {
                Some(answer) => {
                    self.add("\nAnswered");
                    if let Some(by) = &question.by {
                        let by = code_span(by, self.redactor);
                        self.add(&format!(" by {by}"));
                    }
                    self.add(":\n\n");
                    self.add(&code_fence(answer, LONGEST_ANSWER, self.redactor));
                }
                None => self.add("\nNot answered.\n"),
            }
        }
    }

    fn cost(&mut self, report: &RunReport) {
        let page = &report.page;
        if page.costs.is_empty() {
            return;
        }
        self.add("\n## Cost by session\n\n| Session | From | Model | Turns | Tokens | Cost |\n|---|---|---|--:|--:|--:|\n");
        for row in &page.costs {
            let [number, from, model, turns, tokens, cost] = report_lines::cost_fields(row);
            let model = self.cell(&model);
            self.add(&format!("| {number} | {from} | {model} | {turns} | {tokens} | {cost} |\n"));
        }
        self.add(&format!("\n{}\n", report_lines::cost_note(page)));
    }

    fn changes(&mut self, report: &RunReport) {
        let Some((files, left_out)) = report_lines::changed_files(report) else { return };
        let summary = report_lines::change_summary(report);
        self.add(&format!("\n## Changes by file\n\n{summary}\n"));
        if !files.is_empty() {
            self.add("\n| File | Added | Removed |\n|---|--:|--:|\n");
        }
        for file in files {
            let status = if file.status == "modified" { "" } else { file.status };
            let path = self.cell(&file.path);
            let (added, removed) = (line_count(file.added, '+'), line_count(file.removed, '−'));
            let gap = if status.is_empty() { "" } else { " " };
            self.add(&format!("| {path}{gap}{status} | {added} | {removed} |\n"));
        }
        if left_out > 0 {
            self.add(&format!("\n{}.\n", count_noun(left_out, "more file")));
        }
    }
}

/// Whether a text has nothing that Markdown or a forge acts on, wherever it stands in a line: then it needs no code
/// span. A dot within a word could make a link, and a number at the beginning a list.
fn is_inert(text: &str) -> bool {
    let is_plain = |(at, char): (usize, char)| match char {
        '.' => text.get(at + 1..).is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')),
        ',' | ';' | ':' | '(' | ')' | '%' | '$' | ' ' => true,
        char => char.is_alphanumeric(),
    };
    let after_number = text.trim_start_matches(|char: char| char.is_ascii_digit());
    let is_list = after_number.len() < text.len() && !after_number.starts_with(' ');
    text.starts_with(char::is_alphanumeric)
        && (!is_list || after_number.is_empty())
        && text.char_indices().all(is_plain)
}

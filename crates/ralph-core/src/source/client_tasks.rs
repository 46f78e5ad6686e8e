//! The task list that an agent's client keeps itself. Each host parses its own files.

use super::{MAX_FINDINGS, count_of_total};
use crate::requirement::{
    EvidenceKind, Finding, Requirement, RequirementFailure, RequirementStage, RequirementStatus,
    RequirementWeight,
};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const MAX_BLOCKERS: usize = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTask {
    pub id: String,
    pub subject: String,
    pub status: ClientTaskStatus,
    /// Ids of tasks that come first.
    pub blocked_by: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientTaskStatus {
    Pending,
    InProgress,
    Completed,
}

/// One requirement for the whole list; `None` if it is empty.
pub fn client_tasks_requirement(mut tasks: Vec<ClientTask>) -> Option<Requirement> {
    if tasks.is_empty() {
        return None;
    }
    tasks.sort_by(|a, b| id_sort_key(&a.id).cmp(&id_sort_key(&b.id)));
    let open: BTreeMap<&str, &ClientTask> = tasks
        .iter()
        .filter(|task| task.status != ClientTaskStatus::Completed)
        .map(|task| (task.id.as_str(), task))
        .collect();
    let is_open = |task: &&ClientTask| task.status != ClientTaskStatus::Completed;
    let count = tasks.iter().filter(is_open).count();
    let (standing, next) = if count == 0 {
        (RequirementStatus::Met(EvidenceKind::Claimed), "")
    } else {
        let shown = tasks.iter().filter(is_open).take(MAX_FINDINGS);
        let findings: Vec<Finding> =
            shown.map(|task| Finding::new(describe_task(task, &open))).collect();
        let failure = RequirementFailure {
            summary: format!("{} open", count_of_total(count, tasks.len(), "task")),
            unlisted: count - findings.len(),
            findings,
            ..RequirementFailure::default()
        };
        (RequirementStatus::Unmet(failure), "Finish the open tasks and mark each one completed")
    };
    Some(Requirement {
        name: "client tasks".to_owned(),
        stage: RequirementStage::Planning,
        status: standing,
        weight: RequirementWeight::Required,
        next: next.to_owned(),
    })
}

/// Sorts numeric ids by value and before all others.
fn id_sort_key(id: &str) -> (u64, &str) {
    (id.parse().unwrap_or(u64::MAX), id)
}

/// `#3 Wire it in (in progress, blocked by #1, #2)`
fn describe_task(task: &ClientTask, open: &BTreeMap<&str, &ClientTask>) -> String {
    let mut remarks = Vec::new();
    if task.status == ClientTaskStatus::InProgress {
        remarks.push("in progress".to_owned());
    }
    let mut blockers: Vec<&str> = Vec::new();
    for id in &task.blocked_by {
        if blockers.len() < MAX_BLOCKERS && open.contains_key(id.as_str()) && *id != task.id {
            blockers.push(id);
        }
    }
    if !blockers.is_empty() {
        remarks.push(format!("blocked by #{}", blockers.join(", #")));
    }
    let ClientTask { id, subject, .. } = task;
    if remarks.is_empty() {
        format!("#{id} {subject}")
    } else {
        format!("#{id} {subject} ({})", remarks.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: &str, status: ClientTaskStatus, blocked_by: &[&str]) -> ClientTask {
        let blocked_by = blocked_by.iter().map(|id| (*id).to_owned()).collect();
        ClientTask { id: id.to_owned(), subject: format!("do {id}"), status, blocked_by }
    }

    fn shown(tasks: Vec<ClientTask>) -> String {
        match client_tasks_requirement(tasks).map(|requirement| requirement.status) {
            None => "none".to_owned(),
            Some(RequirementStatus::Met(evidence)) => format!("{evidence:?}"),
            Some(RequirementStatus::Unmet(failure)) => {
                let lines: Vec<_> =
                    failure.findings.into_iter().map(|finding| finding.message).collect();
                format!("{}\n{}\n+{}", failure.summary, lines.join("\n"), failure.unlisted)
            }
            Some(RequirementStatus::Unknown(why)) => why,
            Some(RequirementStatus::Pending(pending)) => pending.why().to_owned(),
        }
    }

    #[test]
    fn open_tasks_are_listed_in_order_with_their_blockers() {
        let tasks = [
            task("10", ClientTaskStatus::Pending, &["2", "1", "99", "10"]),
            task("x", ClientTaskStatus::Pending, &[]),
            task("2", ClientTaskStatus::InProgress, &["1"]),
            task("1", ClientTaskStatus::Completed, &[]),
            task("3", ClientTaskStatus::Completed, &["2"]),
        ];
        insta::assert_snapshot!(shown(tasks.to_vec()), @"
        3 of 5 tasks are open
        #2 do 2 (in progress)
        #10 do 10 (blocked by #2)
        #x do x
        +0
        ");
    }

    /// R-S4c: a task that the agent marked completed is a claim.
    #[test]
    fn completed_tasks_are_a_claim_and_an_empty_list_is_no_requirement() {
        assert_eq!(shown(Vec::new()), "none");
        assert_eq!(shown([task("1", ClientTaskStatus::Completed, &[])].to_vec()), "Claimed");
    }

    #[test]
    fn all_tasks_are_counted_and_the_first_are_listed() {
        let tasks =
            (0..1_000).map(|id| task(&format!("{id}"), ClientTaskStatus::Pending, &[])).collect();
        let shown = shown(tasks);
        assert_eq!(shown.lines().count(), 52);
        assert_eq!(shown.lines().next(), Some("1000 of 1000 tasks are open"));
        assert_eq!(shown.lines().last(), Some("+950"));
    }
}

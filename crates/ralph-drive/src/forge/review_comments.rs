//! Comments of people on the pull request of a run.
//!
//! Only people who may write to the project count: on a public project everyone can comment, and a comment becomes a
//! message to the agent. Programs are left out.

use std::collections::BTreeMap;

use ralph_core::text;
use ralph_sys::clock::Deadline;
use serde::Deserialize;

use super::forge_tool::{ForgeMethod, call_api};
use super::remote::is_plain_name;
use super::{Forge, ForgeError, ForgeTool};

const WHAT: &str = "read the comments";
const PER_PAGE: usize = 100;
/// Up to this many comments of one kind are read.
const PAGES: usize = 3;
const LONGEST_TEXT: usize = 1_500;
const LONGEST_NAME: usize = 60;
const LONGEST_PATH: usize = 200;
/// GitLab's level of a developer, who may push.
const DEVELOPER_LEVEL: u64 = 30;

/// What a person wrote on a pull request. Foreign text, cleaned and bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewComment {
    /// `r123`, `c123` or `v123`: unique on its pull request.
    pub id: String,
    pub author: String,
    /// `src/a.rs:12`
    pub place: Option<String>,
    pub text: String,
}

impl ReviewComment {
    /// The message for the agent. It starts with the id, so that a comment is sent once.
    pub fn message(&self) -> String {
        let place = self.place.as_ref().map(|place| format!(" on `{place}`")).unwrap_or_default();
        format!("{} of {}{place}:\n{}", self.mark(), self.author, self.text)
    }

    fn mark(&self) -> String {
        format!("Review comment {}", self.id)
    }

    /// Whether this message is about the comment.
    pub fn is_in(&self, message: &str) -> bool {
        message.strip_prefix(&self.mark()).is_some_and(|rest| rest.starts_with(' '))
    }
}

#[derive(Deserialize)]
struct RequestNumber {
    #[serde(alias = "iid")]
    number: Option<u64>,
    /// GitLab: where the branch is, and where the request is.
    source_project_id: Option<u64>,
    project_id: Option<u64>,
}

#[derive(Deserialize)]
struct GithubComment {
    id: Option<u64>,
    user: Option<GithubUser>,
    author_association: Option<String>,
    body: Option<String>,
    path: Option<String>,
    line: Option<u64>,
    original_line: Option<u64>,
}

#[derive(Deserialize)]
struct GithubUser {
    login: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
struct GitlabNote {
    id: Option<u64>,
    body: Option<String>,
    author: Option<GitlabAuthor>,
    #[serde(default)]
    system: bool,
    #[serde(default)]
    resolved: bool,
    position: Option<GitlabPosition>,
}

#[derive(Deserialize)]
struct GitlabAuthor {
    id: Option<u64>,
    username: Option<String>,
    #[serde(default)]
    bot: bool,
}

#[derive(Deserialize)]
struct GitlabPosition {
    new_path: Option<String>,
    new_line: Option<u64>,
}

#[derive(Deserialize)]
struct GitlabMember {
    access_level: Option<u64>,
}

/// All that GitLab shows of one user. The author of a note is shown without `bot`.
#[derive(Deserialize)]
struct GitlabUser {
    bot: Option<bool>,
}

/// The comments on the newest request of a branch, oldest first.
pub fn read_review_comments(
    forge: &Forge,
    branch: &str,
    deadline: &Deadline,
) -> Result<Vec<ReviewComment>, ForgeError> {
    let none = || ForgeError::NoRequest { branch: text::clean_line(branch, LONGEST_NAME) };
    if !is_plain_name(branch) {
        return Err(none());
    }
    let project = forge.tool.project_endpoint(&forge.project);
    let head = branch.replace('/', "%2F");
    let endpoint = match forge.tool {
        ForgeTool::GitHub => {
            let owner = forge.project.split('/').next().unwrap_or_default();
            format!(
                "{project}/pulls?state=all&head={owner}:{head}&sort=created&direction=desc&per_page=1"
            )
        }
        ForgeTool::GitLab => format!(
            "{project}/merge_requests?source_branch={head}&order_by=created_at&sort=desc&per_page=50"
        ),
    };
    let found: Vec<RequestNumber> =
        call_api(forge, &ForgeMethod::Get.call(endpoint, "look for the request"), deadline)?;
    // A fork may have a branch with the same name. GitHub is asked for those of the owner alone.
    let mut own = found.iter().filter(|found| found.source_project_id == found.project_id);
    let number = own.next().and_then(|request| request.number).ok_or_else(none)?;
    match forge.tool {
        ForgeTool::GitHub => github_comments(forge, number, deadline),
        ForgeTool::GitLab => gitlab_comments(forge, number, deadline),
    }
}

fn read_all<T: for<'de> Deserialize<'de>>(
    forge: &Forge,
    endpoint: &str,
    deadline: &Deadline,
) -> Result<Vec<T>, ForgeError> {
    let mut all = Vec::new();
    for page in 1..=PAGES {
        let endpoint = format!("{endpoint}?per_page={PER_PAGE}&page={page}");
        let found: Vec<T> = call_api(forge, &ForgeMethod::Get.call(endpoint, WHAT), deadline)?;
        let is_last = found.len() < PER_PAGE;
        all.extend(found);
        if is_last {
            break;
        }
    }
    Ok(all)
}

/// Comments on lines, the texts of reviews, and the conversation.
fn github_comments(
    forge: &Forge,
    number: u64,
    deadline: &Deadline,
) -> Result<Vec<ReviewComment>, ForgeError> {
    let project = forge.tool.project_endpoint(&forge.project);
    let mut all = Vec::new();
    for (letter, endpoint) in [
        ('v', format!("{project}/pulls/{number}/reviews")),
        ('r', format!("{project}/pulls/{number}/comments")),
        ('c', format!("{project}/issues/{number}/comments")),
    ] {
        let found: Vec<GithubComment> = read_all(forge, &endpoint, deadline)?;
        all.extend(found.into_iter().filter_map(|comment| comment.into_review(letter)));
    }
    Ok(all)
}

impl GithubComment {
    fn into_review(self, letter: char) -> Option<ReviewComment> {
        let user = self.user?;
        let login = user.login.unwrap_or_default();
        let is_person = user.kind.as_deref() == Some("User") && !login.ends_with("[bot]");
        let may_write =
            matches!(self.author_association.as_deref(), Some("OWNER" | "MEMBER" | "COLLABORATOR"));
        let line = self.line.or(self.original_line);
        let place = self.path.as_deref().map(|path| format_place(path, line));
        (is_person && may_write)
            .then(|| {
                new_comment(format!("{letter}{}", self.id?), &login, place, self.body.as_deref()?)
            })
            .flatten()
    }
}

fn gitlab_comments(
    forge: &Forge,
    number: u64,
    deadline: &Deadline,
) -> Result<Vec<ReviewComment>, ForgeError> {
    let project = forge.tool.project_endpoint(&forge.project);
    let endpoint = format!("{project}/merge_requests/{number}/notes");
    let mut notes: Vec<GitlabNote> = read_all(forge, &endpoint, deadline)?;
    notes.sort_by_key(|note| note.id);
    let mut reviewers: BTreeMap<u64, bool> = BTreeMap::new();
    let mut all = Vec::new();
    for note in notes.into_iter().filter(|note| !note.system && !note.resolved) {
        let Some(author) = note.author.filter(|author| !author.bot) else { continue };
        let Some(id) = author.id else { continue };
        let known = reviewers.get(&id).copied();
        let counts = known.map_or_else(|| is_reviewer(forge, id, deadline), Ok)?;
        reviewers.insert(id, counts);
        let place = note.position.and_then(|at| Some(format_place(&at.new_path?, at.new_line)));
        let name = author.username.unwrap_or_default();
        if let (true, Some(id), Some(body)) = (counts, note.id, note.body) {
            all.extend(new_comment(format!("c{id}"), &name, place, &body));
        }
    }
    Ok(all)
}

/// Whether a user is a person who may push. The token of a project is a user too, and can have any access level.
fn is_reviewer(forge: &Forge, user: u64, deadline: &Deadline) -> Result<bool, ForgeError> {
    let project = forge.tool.project_endpoint(&forge.project);
    let member = format!("{project}/members/all/{user}");
    let member: Option<GitlabMember> = read_if_found(forge, member, deadline)?;
    let level = member.and_then(|member| member.access_level);
    if level.is_none_or(|level| level < DEVELOPER_LEVEL) {
        return Ok(false);
    }
    let shown: Option<GitlabUser> = read_if_found(forge, format!("users/{user}"), deadline)?;
    Ok(shown.is_some_and(|user| user.bot == Some(false)))
}

fn read_if_found<T: for<'de> Deserialize<'de>>(
    forge: &Forge,
    endpoint: String,
    deadline: &Deadline,
) -> Result<Option<T>, ForgeError> {
    match call_api(forge, &ForgeMethod::Get.call(endpoint, WHAT), deadline) {
        Ok(found) => Ok(Some(found)),
        Err(ForgeError::Refused { status: Some(404), .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn format_place(path: &str, line: Option<u64>) -> String {
    let path = text::clean_line(path, LONGEST_PATH).replace('`', "'");
    line.map_or_else(|| path.clone(), |line| format!("{path}:{line}"))
}

/// A review without a text is a mere approval.
fn new_comment(
    id: String,
    author: &str,
    place: Option<String>,
    body: &str,
) -> Option<ReviewComment> {
    let text = text::clean(body);
    let text = text::truncate(text.trim(), LONGEST_TEXT);
    let author = text::clean_line(author, LONGEST_NAME);
    (!text.is_empty()).then_some(ReviewComment { id, author, place, text })
}

//! Opens a pull request, or updates the one that is already open.

use std::path::Path;

use ralph_core::text;
use serde::Deserialize;

use super::body::neutral;
use super::tool::{Method, Question, Tool, api};
use super::{Forge, ForgeError};
use ralph_sys::clock::Deadline;

const LONGEST_TITLE: usize = 200;
const LONGEST_LINK: usize = 500;

/// A pull request to open or update.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub title: &'a str,
    /// The file with the body.
    pub body: &'a Path,
    /// The run's branch, already pushed.
    pub head: &'a str,
    /// The target branch.
    pub base: &'a str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    Opened {
        url: String,
    },
    /// An open request for this branch got the new title and body.
    Updated {
        url: String,
    },
}

impl Opened {
    pub fn url(&self) -> &str {
        match self {
            Self::Opened { url } | Self::Updated { url } => url,
        }
    }
}

/// A request in the JSON of either forge.
#[derive(Deserialize)]
struct Found {
    #[serde(alias = "iid")]
    number: Option<u64>,
    #[serde(alias = "web_url")]
    html_url: Option<String>,
    source_branch: Option<String>,
    source_project_id: Option<u64>,
    project_id: Option<u64>,
    head: Option<Head>,
}

#[derive(Deserialize)]
struct Head {
    r#ref: Option<String>,
    repo: Option<Repository>,
}

#[derive(Deserialize)]
struct Repository {
    full_name: Option<String>,
}

/// Opens a request. Idempotent: a request that is already open for the branch is updated.
pub fn open(
    forge: &Forge,
    request: &Request<'_>,
    deadline: &Deadline,
) -> Result<Opened, ForgeError> {
    const WHAT: &str = "open the request";
    if let Some(found) = find(forge, request, deadline)? {
        return update(forge, request, &found, deadline);
    }
    let kind = forge.tool.requests();
    let endpoint = format!("{}/{kind}", forge.tool.project(&forge.project));
    let question = Method::Post.call(endpoint, WHAT);
    let question = match forge.tool {
        Tool::GitHub => question.with("head", request.head).with("base", request.base),
        Tool::GitLab => {
            question.with("source_branch", request.head).with("target_branch", request.base)
        }
    };
    match api::<Found>(forge, &written(forge, question, request), deadline) {
        Ok(made) => Ok(Opened::Opened { url: url(forge, &made, WHAT)? }),
        // It may have been opened in between, or by an earlier attempt whose answer was lost.
        Err(error @ ForgeError::Refused { .. }) => match find(forge, request, deadline)? {
            Some(found) => update(forge, request, &found, deadline),
            None => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// The open request for this branch of this very project: a fork may have a branch with the same name.
fn find(
    forge: &Forge,
    request: &Request<'_>,
    deadline: &Deadline,
) -> Result<Option<Found>, ForgeError> {
    let project = forge.tool.project(&forge.project);
    let head = request.head.replace('/', "%2F");
    let endpoint = match forge.tool {
        Tool::GitHub => {
            let owner = forge.project.split('/').next().unwrap_or_default();
            format!("{project}/pulls?state=open&head={owner}:{head}&per_page=50")
        }
        Tool::GitLab => {
            format!("{project}/merge_requests?state=opened&source_branch={head}&per_page=50")
        }
    };
    let question = Method::Get.call(endpoint, "look for an open request");
    let all: Vec<Found> = api(forge, &question, deadline)?;
    Ok(all.into_iter().find(|found| match forge.tool {
        Tool::GitHub => found.head.as_ref().is_some_and(|head| {
            let from = head.repo.as_ref().and_then(|repository| repository.full_name.as_deref());
            head.r#ref.as_deref() == Some(request.head)
                && from.is_some_and(|from| from.eq_ignore_ascii_case(&forge.project))
        }),
        Tool::GitLab => {
            found.source_branch.as_deref() == Some(request.head)
                && found.source_project_id == found.project_id
        }
    }))
}

fn update(
    forge: &Forge,
    request: &Request<'_>,
    found: &Found,
    deadline: &Deadline,
) -> Result<Opened, ForgeError> {
    const WHAT: &str = "update the request";
    let number = found.number.ok_or(ForgeError::Odd { tool: forge.tool, what: WHAT })?;
    let kind = forge.tool.requests();
    let endpoint = format!("{}/{kind}/{number}", forge.tool.project(&forge.project));
    let method = match forge.tool {
        Tool::GitHub => Method::Patch,
        Tool::GitLab => Method::Put,
    };
    let question = written(forge, method.call(endpoint, WHAT), request);
    let made: Found = api(forge, &question, deadline)?;
    Ok(Opened::Updated { url: url(forge, &made, WHAT)? })
}

fn written(forge: &Forge, question: Question<'static>, request: &Request<'_>) -> Question<'static> {
    let name = match forge.tool {
        Tool::GitHub => "body",
        Tool::GitLab => "description",
    };
    let title = neutral(&text::line(request.title, LONGEST_TITLE));
    question.with("title", &title).with_file(name, request.body)
}

/// The request's address, accepted only if it is on this forge.
fn url(forge: &Forge, found: &Found, what: &'static str) -> Result<String, ForgeError> {
    let url = found.html_url.as_deref().and_then(link);
    let prefix = format!("https://{}/", forge.host);
    let plain = format!("http://{}/", forge.host);
    url.filter(|url| url.starts_with(&prefix) || url.starts_with(&plain))
        .ok_or(ForgeError::Odd { tool: forge.tool, what })
}

/// An address that is safe to show and to click on.
pub(super) fn link(url: &str) -> Option<String> {
    let is_web = url.starts_with("https://") || url.starts_with("http://");
    let is_plain =
        url.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"'`\\{}|^".contains(&byte));
    (is_web && is_plain && url.len() <= LONGEST_LINK).then(|| url.to_owned())
}

impl Tool {
    fn requests(self) -> &'static str {
        match self {
            Self::GitHub => "pulls",
            Self::GitLab => "merge_requests",
        }
    }
}

//! Opens a pull request, or updates the one that is already open.

use std::path::Path;

use ralph_core::text;
use serde::Deserialize;

use super::forge_tool::{ForgeCall, ForgeMethod, ForgeTool, call_api};
use super::request_body::neutralise;
use super::{Forge, ForgeError};
use ralph_sys::clock::Deadline;

const LONGEST_TITLE: usize = 200;
const LONGEST_LINK: usize = 500;

/// A pull request to open or update.
#[derive(Clone, Copy, Debug)]
pub struct PullRequest<'a> {
    pub title: &'a str,
    /// The file with the body.
    pub body: &'a Path,
    /// The run's branch, already pushed.
    pub head: &'a str,
    /// The target branch.
    pub base: &'a str,
    /// Whether it is marked as not ready for review. An open request keeps its mark.
    pub draft: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenedRequest {
    Opened {
        url: String,
    },
    /// An open request for this branch got the new title and body.
    Updated {
        url: String,
    },
}

impl OpenedRequest {
    pub fn url(&self) -> &str {
        match self {
            Self::Opened { url } | Self::Updated { url } => url,
        }
    }
}

/// A request in the JSON of either forge.
#[derive(Deserialize)]
struct ForgeRequest {
    #[serde(alias = "iid")]
    number: Option<u64>,
    #[serde(alias = "web_url")]
    html_url: Option<String>,
    source_branch: Option<String>,
    source_project_id: Option<u64>,
    project_id: Option<u64>,
    head: Option<ForgeRequestHead>,
}

#[derive(Deserialize)]
struct ForgeRequestHead {
    r#ref: Option<String>,
    repo: Option<ForgeRepository>,
}

#[derive(Deserialize)]
struct ForgeRepository {
    full_name: Option<String>,
}

/// Opens a request. Idempotent: a request that is already open for the branch is updated.
pub fn open_request(
    forge: &Forge,
    request: &PullRequest<'_>,
    deadline: &Deadline,
) -> Result<OpenedRequest, ForgeError> {
    const WHAT: &str = "open the request";
    if let Some(found) = find_open_request(forge, request, deadline)? {
        return update_request(forge, request, &found, deadline);
    }
    let kind = forge.tool.requests_endpoint();
    let endpoint = format!("{}/{kind}", forge.tool.project_endpoint(&forge.project));
    let question = ForgeMethod::Post.call(endpoint, WHAT);
    let question = match forge.tool {
        ForgeTool::GitHub => {
            let question =
                question.with_field("head", request.head).with_field("base", request.base);
            if request.draft { question.with_flag("draft") } else { question }
        }
        ForgeTool::GitLab => question
            .with_field("source_branch", request.head)
            .with_field("target_branch", request.base),
    };
    match call_api::<ForgeRequest>(forge, &with_title_and_body(forge, question, request), deadline)
    {
        Ok(made) => Ok(OpenedRequest::Opened { url: request_url(forge, &made, WHAT)? }),
        // It may have been opened in between, or by an earlier attempt whose answer was lost.
        Err(error @ ForgeError::Refused { .. }) => {
            match find_open_request(forge, request, deadline)? {
                Some(found) => update_request(forge, request, &found, deadline),
                None => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

/// The open request for this branch of this very project: a fork may have a branch with the same name.
fn find_open_request(
    forge: &Forge,
    request: &PullRequest<'_>,
    deadline: &Deadline,
) -> Result<Option<ForgeRequest>, ForgeError> {
    let project = forge.tool.project_endpoint(&forge.project);
    let head = request.head.replace('/', "%2F");
    let endpoint = match forge.tool {
        ForgeTool::GitHub => {
            let owner = forge.project.split('/').next().unwrap_or_default();
            format!("{project}/pulls?state=open&head={owner}:{head}&per_page=50")
        }
        ForgeTool::GitLab => {
            format!("{project}/merge_requests?state=opened&source_branch={head}&per_page=50")
        }
    };
    let question = ForgeMethod::Get.call(endpoint, "look for an open request");
    let all: Vec<ForgeRequest> = call_api(forge, &question, deadline)?;
    Ok(all.into_iter().find(|found| match forge.tool {
        ForgeTool::GitHub => found.head.as_ref().is_some_and(|head| {
            let from = head.repo.as_ref().and_then(|repository| repository.full_name.as_deref());
            head.r#ref.as_deref() == Some(request.head)
                && from.is_some_and(|from| from.eq_ignore_ascii_case(&forge.project))
        }),
        ForgeTool::GitLab => {
            found.source_branch.as_deref() == Some(request.head)
                && found.source_project_id == found.project_id
        }
    }))
}

fn update_request(
    forge: &Forge,
    request: &PullRequest<'_>,
    found: &ForgeRequest,
    deadline: &Deadline,
) -> Result<OpenedRequest, ForgeError> {
    const WHAT: &str = "update the request";
    let number =
        found.number.ok_or(ForgeError::UnexpectedAnswer { tool: forge.tool, what: WHAT })?;
    let kind = forge.tool.requests_endpoint();
    let endpoint = format!("{}/{kind}/{number}", forge.tool.project_endpoint(&forge.project));
    let method = match forge.tool {
        ForgeTool::GitHub => ForgeMethod::Patch,
        ForgeTool::GitLab => ForgeMethod::Put,
    };
    let question = with_title_and_body(forge, method.call(endpoint, WHAT), request);
    let made: ForgeRequest = call_api(forge, &question, deadline)?;
    Ok(OpenedRequest::Updated { url: request_url(forge, &made, WHAT)? })
}

fn with_title_and_body(
    forge: &Forge,
    question: ForgeCall<'static>,
    request: &PullRequest<'_>,
) -> ForgeCall<'static> {
    let name = match forge.tool {
        ForgeTool::GitHub => "body",
        ForgeTool::GitLab => "description",
    };
    let title = neutralise(&text::clean_line(request.title, LONGEST_TITLE));
    // GitLab has no field for it.
    let title = match (forge.tool, request.draft) {
        (ForgeTool::GitLab, true) => format!("Draft: {title}"),
        (ForgeTool::GitLab, false) | (ForgeTool::GitHub, _) => title,
    };
    question.with_field("title", &title).with_file(name, request.body)
}

/// The request's address, accepted only if it is on this forge.
fn request_url(
    forge: &Forge,
    found: &ForgeRequest,
    what: &'static str,
) -> Result<String, ForgeError> {
    let url = found.html_url.as_deref().and_then(safe_link);
    let prefix = format!("https://{}/", forge.host);
    let plain = format!("http://{}/", forge.host);
    url.filter(|url| url.starts_with(&prefix) || url.starts_with(&plain))
        .ok_or(ForgeError::UnexpectedAnswer { tool: forge.tool, what })
}

/// An address that is safe to show and to click on.
pub(super) fn safe_link(url: &str) -> Option<String> {
    let is_web = url.starts_with("https://") || url.starts_with("http://");
    let is_plain =
        url.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"'`\\{}|^".contains(&byte));
    (is_web && is_plain && url.len() <= LONGEST_LINK).then(|| url.to_owned())
}

impl ForgeTool {
    fn requests_endpoint(self) -> &'static str {
        match self {
            Self::GitHub => "pulls",
            Self::GitLab => "merge_requests",
        }
    }
}

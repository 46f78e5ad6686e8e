//! Issues of a forge: reads one, lists those with a label, adds a comment.

use std::path::Path;

use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use serde::Deserialize;
use serde_json::Value;

use super::forge_tool::{self, ForgeMethod, call_api};
use super::remote::{self, ForgeRemote, PushAddresses};
use super::{Forge, ForgeError, ForgeTool, logged_in_tool};

/// The most that both forges return at once.
const PAGE: usize = 100;

/// An issue as the forge describes it. Foreign text, of any length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgeIssue {
    pub number: u64,
    pub title: String,
    pub body: String,
    pub labels: Vec<String>,
    pub url: Option<String>,
    pub is_closed: bool,
    /// GitHub lists pull requests among the issues.
    pub is_request: bool,
}

#[derive(Deserialize)]
struct ForgeIssueWire {
    /// GitLab: `iid`. Its `id` counts across the whole instance.
    #[serde(alias = "iid")]
    number: u64,
    title: String,
    #[serde(alias = "description")]
    body: Option<String>,
    #[serde(default)]
    labels: Vec<Value>,
    #[serde(alias = "web_url")]
    html_url: Option<String>,
    state: Option<String>,
    pull_request: Option<Value>,
}

impl From<ForgeIssueWire> for ForgeIssue {
    fn from(wire: ForgeIssueWire) -> Self {
        // GitHub's labels are objects.
        let label = |label: &Value| label.get("name").unwrap_or(label).as_str().map(str::to_owned);
        Self {
            number: wire.number,
            title: wire.title,
            body: wire.body.unwrap_or_default(),
            labels: wire.labels.iter().filter_map(label).collect(),
            url: wire.html_url,
            is_closed: wire.state.as_deref() == Some("closed"),
            is_request: wire.pull_request.is_some(),
        }
    }
}

impl Forge {
    /// The project that a person named. Nothing is pushed to it.
    pub fn named(
        tool: ForgeTool,
        host: &str,
        path: &str,
        env: &Env,
        deadline: &Deadline,
    ) -> Result<Self, ForgeError> {
        let host = host.to_owned();
        if !forge_tool::is_installed(tool, env, deadline)? {
            return Err(ForgeError::NoTool { tool, host });
        }
        Ok(Self {
            tool,
            host,
            project: path.to_owned(),
            remote: String::new(),
            default_branch: None,
            addresses: PushAddresses::none(),
            env: env.clone(),
        })
    }

    /// The project of the repository's remote, to read its issues. `tool` overrides the detection. It need not allow
    /// pushes; [`super::find_request_forge`] checks that too.
    pub fn for_issues(
        project: &Path,
        env: &Env,
        tool: Option<ForgeTool>,
        deadline: &Deadline,
    ) -> Result<Self, ForgeError> {
        let ForgeRemote { name, address, .. } = remote::find_project_remote(project, deadline)?;
        let detected = ForgeTool::for_host(&address.host);
        let tool = match (tool, detected) {
            (Some(tool), Some(other)) if tool != other => {
                return Err(ForgeError::OtherForge { remote: name, host: address.host, tool });
            }
            (Some(tool), _) | (None, Some(tool)) => tool,
            (None, None) => logged_in_tool(&address.host, env, deadline)?,
        };
        if !tool.accepts_path(&address.path) {
            return Err(ForgeError::NoForge(name));
        }
        Self::named(tool, &address.host, &address.path, env, deadline)
    }

    pub fn read_issue(&self, number: u64, deadline: &Deadline) -> Result<ForgeIssue, ForgeError> {
        let endpoint = format!("{}/issues/{number}", self.tool.project_endpoint(&self.project));
        let call = ForgeMethod::Get.call(endpoint, "read the issue");
        let read = call_api::<ForgeIssueWire>(self, &call, deadline);
        read.map(ForgeIssue::from).map_err(|error| self.with_login_checked(error, deadline))
    }

    /// The open issues with a label, oldest first. Stops after `most`.
    pub fn list_issues(
        &self,
        label: &str,
        most: usize,
        deadline: &Deadline,
    ) -> Result<Vec<ForgeIssue>, ForgeError> {
        let project = self.tool.project_endpoint(&self.project);
        let (state, order) = match self.tool {
            ForgeTool::GitHub => ("open", "sort=created&direction=asc"),
            ForgeTool::GitLab => ("opened", "order_by=created_at&sort=asc"),
        };
        let label = percent_encoded(label);
        let mut issues = Vec::new();
        for page in 1.. {
            let endpoint = format!(
                "{project}/issues?labels={label}&state={state}&{order}&per_page={PAGE}&page={page}"
            );
            let call = ForgeMethod::Get.call(endpoint, "list the issues");
            let found: Vec<ForgeIssueWire> = call_api(self, &call, deadline)
                .map_err(|error| self.with_login_checked(error, deadline))?;
            let is_last = found.len() < PAGE;
            let own = found.into_iter().map(ForgeIssue::from).filter(|issue| !issue.is_request);
            issues.extend(own);
            if is_last || issues.len() >= most {
                break;
            }
        }
        Ok(issues)
    }

    /// Adds a comment with the content of a file.
    pub fn comment_on_issue(
        &self,
        number: u64,
        body: &Path,
        deadline: &Deadline,
    ) -> Result<(), ForgeError> {
        let kind = match self.tool {
            ForgeTool::GitHub => "comments",
            ForgeTool::GitLab => "notes",
        };
        let project = self.tool.project_endpoint(&self.project);
        let endpoint = format!("{project}/issues/{number}/{kind}");
        let call = ForgeMethod::Post.call(endpoint, "add the comment").with_file("body", body);
        let added = call_api::<Value>(self, &call, deadline);
        added.map(drop).map_err(|error| self.with_login_checked(error, deadline))
    }

    /// A refusal is often a missing login, which forges do not say: a private project is not found.
    fn with_login_checked(&self, error: ForgeError, deadline: &Deadline) -> ForgeError {
        let (tool, host) = (self.tool, self.host.clone());
        let is_refusal = matches!(error, ForgeError::Refused { .. });
        if is_refusal
            && forge_tool::is_logged_in(tool, &self.env, &host, deadline).is_ok_and(|it| !it)
        {
            return ForgeError::NotLoggedIn { tool, host };
        }
        error
    }
}

/// Everything but letters, digits and `-._~` as `%XX`.
fn percent_encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

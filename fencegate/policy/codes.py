"""What can be wrong with policies: the catalogue that `fencegate problems FG102` prints.

A code is never given to another kind, and stays when the words change: people search for it, and
pipelines look at it. FG0xx: a file cannot be read as policies. FG1xx: what it says does not fit
together. FG2xx: the world outside does not fit to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """An error keeps policies from being used; a warning is said, and they are."""

    ERROR = "error"
    WARNING = "warning"


class Code(StrEnum):
    """The kinds of problems."""

    FILE_UNREADABLE = "FG001"
    NOT_YAML = "FG002"
    YAML_TRAP = "FG003"
    UNKNOWN_KEY = "FG004"
    MISSING_KEY = "FG005"
    WRONG_VALUE = "FG006"
    UNSET = "FG007"
    CLASH = "FG008"
    NO_UPSTREAM = "FG009"
    NO_ENTITY = "FG101"
    SHADOWED = "FG102"
    NO_KEY_WINDOW = "FG103"
    SHORT_RETENTION = "FG104"
    NO_CALLERS = "FG105"
    IDENTITY_CHANGED = "FG106"
    NOT_CAPTURED = "FG107"
    STATUS_TWICE = "FG108"
    SHORT_KEY_WINDOW = "FG109"
    NO_PROBE = "FG110"
    NO_EFFECT = "FG111"
    NOT_BUILT = "FG112"
    TOKEN_SHARED = "FG113"
    LEDGER_AWAY = "FG201"
    UPSTREAM_AWAY = "FG202"


@dataclass(frozen=True, slots=True)
class Kind:
    """What problems of one code have in common. `meaning`: what it is, why it matters, what to
    do."""

    title: str
    meaning: str
    severity: Severity = Severity.ERROR


CODES: dict[Code, Kind] = {
    Code.FILE_UNREADABLE: Kind(
        "A file cannot be read",
        "The file is not there, may not be read, is not UTF-8 text, or is no table of keys and"
        " values. Nothing of it is known, so nothing of it is used. Check the path and its"
        " permissions, and save the file as UTF-8.",
    ),
    Code.NOT_YAML: Kind(
        "A file is not YAML",
        "The file breaks the rules of YAML where the message points, and nothing after that place"
        " was read. Mostly it is the indentation, a space missing after a colon, or a value that"
        " must stand in quotes.",
    ),
    Code.YAML_TRAP: Kind(
        "YAML would read something else than it looks like",
        "YAML allows it, and would take it for something that nobody means: a key that stands"
        " twice, a key without a value, a value that begins with {, * or !. Policies allow none of"
        " them. Write it as the example does, mostly with quotes.",
    ),
    Code.UNKNOWN_KEY: Kind(
        "A key has no meaning where it stands",
        "The key is misspelled, or belongs somewhere else. It is an error because a setting that"
        " is silently ignored is believed to hold. Correct it, move it or remove it.",
    ),
    Code.MISSING_KEY: Kind(
        "A key that is needed is missing",
        "The table cannot mean anything without this key, and there is no default that could be"
        " right. Add it.",
    ),
    Code.WRONG_VALUE: Kind(
        "A value cannot be used",
        "The key is right and its value is not: another type, a word that is none of the choices, a"
        " number without its unit. The message says what was read and what may stand there.",
    ),
    Code.UNSET: Kind(
        "A secret or a file that is named is not there",
        "`${NAME}` names a variable of the environment and `${file:/path}` a file, and what it"
        " names is not set, empty or unreadable. Requests would be sent without their credential."
        " Set it for the process that runs fencegate; where secrets are not at hand, run"
        " `fencegate check --without-secrets`.",
    ),
    Code.CLASH: Kind(
        "Two things have one name",
        "Two upstreams share a name or a mount, two callers a name, or there are two files for the"
        " gateway. Only one of them could be found by it, and names are part of every record."
        " Rename one; its records do not follow it.",
    ),
    Code.NO_UPSTREAM: Kind(
        "There is no upstream",
        "The folder has no file of an upstream, so that there is nothing to guard. Each upstream"
        " has one file that ends in .yaml or .yml, beside gateway.yaml; `fencegate init` writes one"
        " to begin with.",
    ),
    Code.NO_ENTITY: Kind(
        "A guarded route does not say what it changes",
        "Fences are compared per entity: two calls for one entity must not overtake each other, and"
        " calls for different entities do not meet. Without `entity` nothing can be compared. Name"
        " what the call changes, or say `guard: key-only` or `guard: none`.",
    ),
    Code.SHADOWED: Kind(
        "A route is never reached",
        "The first route that matches wins, and an earlier one takes every request of this one, so"
        " that its settings never hold. Put the special route before the general one, or remove"
        " it.",
    ),
    Code.NO_KEY_WINDOW: Kind(
        "Resending is not known to be safe",
        "`on_unknown: resend` sends a call again whose first try may have been applied. This is"
        " harmless only while the upstream remembers its key and answers without doing the work"
        " again. State how long it does in `key_window`, from its documentation; if it does not,"
        " use `on_unknown: refuse`.",
    ),
    Code.SHORT_RETENTION: Kind(
        "An answer may be forgotten before its last retry",
        "`retention` is shorter than all tries of a call may take together. A late retry would find"
        " no answer and be refused, although its call succeeded. Make `retention` longer.",
        Severity.WARNING,
    ),
    Code.NO_CALLERS: Kind(
        "Nobody is asked who they are",
        "No callers are configured. Whoever sends no Authorization counts as one caller, and gets"
        " the kept answer, with the personal data in it, for a key that somebody else used. Name"
        " the callers in gateway.yaml, or say `callers: off` if only trusted workers reach the"
        " gateway.",
        Severity.WARNING,
    ),
    Code.IDENTITY_CHANGED: Kind(
        "Calls would be identified in another way",
        "The key, the entity, the domain or a name differs from what the ledger's records were made"
        " with, and some of them are open or unknown. A retry of such a call would not be"
        " recognised, and its work could be done twice. Settle these records first; or accept it"
        " with --accept-identity-change.",
    ),
    Code.NOT_CAPTURED: Kind(
        "A template names what the path does not have",
        "`{path.x}` is the segment that `{x}` stands for in `match`, and this match has no `{x}`."
        " The route could never read its value and would refuse every call. Capture it in `match`,"
        " or use another value.",
    ),
    Code.STATUS_TWICE: Kind(
        "A status means two things",
        "It stands in `refused_statuses`, which say that the upstream did nothing, and in"
        " `unknown_statuses`, which say that nobody knows. A retry is sent again after the one and"
        " not after the other. Keep it in one list; if in doubt, in `unknown_statuses`.",
    ),
    Code.SHORT_KEY_WINDOW: Kind(
        "The upstream forgets a key before it could be resent",
        "When a try has run into its timeout, the time within which the upstream remembers its key"
        " is over, so that `on_unknown: resend` could never resend. Shorten `timeout`, correct"
        " `key_window`, or use `on_unknown: refuse`.",
    ),
    Code.NO_PROBE: Kind(
        "It is not said how to ask the upstream",
        "`on_unknown: probe` asks the upstream whether a call was applied, and there is no `probe`"
        " that says what to ask. Add one, or use `on_unknown: refuse`.",
    ),
    Code.NO_EFFECT: Kind(
        "A setting changes nothing where it stands",
        "Something else in this route or upstream switches it off, so that whoever relies on it is"
        " mistaken. Remove it, or change what switches it off.",
        Severity.WARNING,
    ),
    Code.NOT_BUILT: Kind(
        "A setting is not acted on yet",
        "It is read and checked, and this version does nothing with it: the default holds. It can"
        " stay in the file for a later version; do not rely on it.",
        Severity.WARNING,
    ),
    Code.TOKEN_SHARED: Kind(
        "A token does not tell who calls",
        "The same digest stands for two callers, so that neither can be told from the other; or it"
        " is the digest of the empty text, which anyone can send. Give each caller a token of its"
        " own.",
    ),
    Code.LEDGER_AWAY: Kind(
        "The ledger cannot be used",
        "`check --online` could not reach the ledger, or found it unusable. Without it the gateway"
        " does not start. Check --ledger, its permissions and the network.",
    ),
    Code.UPSTREAM_AWAY: Kind(
        "The upstream cannot be reached",
        "`check --online` got no connection to the upstream from this machine. The gateway starts"
        " nevertheless, and answers its calls with 502 until it can be reached. Check `url`, names,"
        " firewalls and certificates.",
        Severity.WARNING,
    ),
}

"""Command lines: flags, help and settings files, exit statuses, signals and progress, and what a command
needs before it loads a model (packages, models of the hub, connections, trackers)."""

from videopro.cli.cache_folder import cache_root
from videopro.cli.catalogue import COMMANDS, GROUPS
from videopro.cli.command_line import CONFIGS, CommandLine, config_file
from videopro.cli.connections import (
    CERTIFICATES,
    REQUESTS_CERTIFICATES,
    certificates_problem,
    check_connections,
    check_key,
    has_no_proxy,
    key_problem,
    proxies,
)
from videopro.cli.counter import Counter, PlainLines, RateColumn, counted
from videopro.cli.exit_codes import exit_status
from videopro.cli.extras import MissingExtra, check_extra, install, is_installed, needs_extra
from videopro.cli.freed_memory import trim_heap
from videopro.cli.hub import is_here, is_hub_name
from videopro.cli.option_flags import OptionFlags
from videopro.cli.requirements import Need, check_needs, folder_problem
from videopro.cli.settings import (
    build_settings,
    did_you_mean,
    is_setting,
    parse_yaml,
    plain_type,
    read_yaml,
    setting,
)
from videopro.cli.stopping import defer_signals, leave_signals_to_parent
from videopro.cli.stored_help import HELP, store_help, stored_help
from videopro.cli.trackers import tracker_needs, wandb_problem

__all__ = [
    "cache_root",
    "CERTIFICATES",
    "COMMANDS",
    "CONFIGS",
    "CommandLine",
    "Counter",
    "GROUPS",
    "HELP",
    "MissingExtra",
    "Need",
    "OptionFlags",
    "PlainLines",
    "REQUESTS_CERTIFICATES",
    "RateColumn",
    "build_settings",
    "certificates_problem",
    "check_connections",
    "check_extra",
    "check_key",
    "check_needs",
    "config_file",
    "counted",
    "defer_signals",
    "did_you_mean",
    "exit_status",
    "folder_problem",
    "has_no_proxy",
    "install",
    "is_here",
    "is_setting",
    "is_hub_name",
    "is_installed",
    "key_problem",
    "leave_signals_to_parent",
    "needs_extra",
    "parse_yaml",
    "plain_type",
    "proxies",
    "read_yaml",
    "setting",
    "store_help",
    "stored_help",
    "tracker_needs",
    "trim_heap",
    "wandb_problem",
]

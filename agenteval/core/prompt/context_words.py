"""Words from which the material of a long prompt is put together."""

AREAS = (
    "archive", "audio", "budget", "calendar", "contacts", "digest", "energy", "feeds", "garden",
    "health", "house", "images", "inbox", "invoices", "library", "maps", "meals", "metrics",
    "news", "notes", "papers", "photos", "podcasts", "reading", "recipes", "research", "shopping",
    "sports", "stocks", "strategy", "tasks", "travel", "video", "weather", "writing",
)  # fmt: skip
KINDS = (
    "auditor", "clerk", "collector", "critic", "editor", "finder", "keeper", "linker", "planner",
    "reader", "reporter", "reviewer", "scheduler", "sorter", "summariser", "tagger", "tracker",
    "watcher", "writer",
)  # fmt: skip
DOING = (
    "collects", "compares", "checks", "describes", "draws up", "explains", "files", "finds",
    "keeps", "lists", "marks", "merges", "orders", "plans", "ranks", "reads", "reports on",
    "reviews", "sorts", "summarises", "tags", "translates", "watches", "writes up",
)  # fmt: skip
THINGS = (
    "the monthly figures", "open questions of the last review", "letters that wait for an answer",
    "receipts above the limit", "the reading list of this quarter", "drafts nobody has approved",
    "sources with a date", "rooms that are used at night", "readings of the meters",
    "appointments that clash", "the plan for the weekend", "parts that were ordered twice",
    "warnings of the last run", "pictures without a caption", "the decisions of the last meeting",
    "chapters that were summarised", "subscriptions that end soon", "the weather of the week",
    "stages that were passed", "comments of the evaluator", "the inventory of the cellar",
    "names that are written in two ways", "tickets that were closed", "the route with a stop",
)  # fmt: skip
PLACES = (
    "for the morning digest", "in the family folder", "of the research loop", "before noon",
    "with their sources", "for the next stage", "once a week", "in plain sentences",
    "and says what is missing", "by date", "by the person concerned", "for the archive",
    "without repeating what is known", "with a figure and its unit", "in the order of urgency",
    "for whoever asks next", "as they stood at midnight", "in one table",
)  # fmt: skip
ASKED = (
    "What became of", "Who looks after", "Can you tell me more about", "Is there news about",
    "How do we keep", "When did we last go through", "Which agent owns", "What is still open in",
)  # fmt: skip
FOUND = (
    "The last report mentions", "Nothing has changed in", "Two entries were added to",
    "The owner asked to keep", "It was agreed to review", "There is a note about",
    "The newest version has", "Somebody still has to confirm", "The digest of Monday covered",
)  # fmt: skip
NOTED = (
    "look again at", "done with", "waiting for", "asked about", "moved", "half of", "no news of",
    "remember", "compare with last year:",
)  # fmt: skip

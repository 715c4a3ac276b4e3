-- The database of one trial. It is a template: the same seed gives the same rows, another seed others.
CREATE TABLE chores (id INTEGER PRIMARY KEY, text TEXT NOT NULL, done INTEGER NOT NULL DEFAULT 0);
{% set chores = [
  "water the plants", "bleed the radiators", "oil the gate", "sharpen the knives", "wash the curtains",
  "sweep the chimney", "clear the gutters", "descale the kettle", "air the beds", "sort the post",
  "turn the compost", "mend the fence", "clean the oven", "order salt", "test the smoke alarm",
] %}
{% for text in chance.shuffled(chores) %}
INSERT INTO chores (id, text) VALUES ({{ first + loop.index }}, '{{ text }}');
{% endfor %}

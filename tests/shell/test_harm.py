"""What a bare command could do, by tables."""

import pytest

from agenteval.shell.gate import Simple
from agenteval.shell.programs import harm, is_familiar

_READS = """
ls -l
/usr/bin/ls
[ -f x ]
sed -n 5p x
sed -e i x
sort -u x
find . -name x
find . -name x -exec grep -l y {} +
git
git --no-pager log -3
git -C sub status
git -C
docker ps -a
pip list
systemctl status x
"""
_NETWORKS = """
curl x
find . -exec curl -T {} x ;
apt-get install x
pip install -r x
npm ci
npx x
uv add x
cargo install x
go get x
docker pull x
git push
git -c a=b fetch
kubectl get x
"""
_DESTROYS = """
rm x
sed -i s/a/b/ x
sed -Ei.bak s/a/b/ x
sed --in-place s/a/b/ x
yq -i .a x
sort -o x x
find . -delete
find . -exec rm {} +
find . -exec timeout 5 nice rm {} ;
find . -ok ls {} ; -execdir chmod 600 {} ;
find . -exec ls {} ; -fprint0 x
git reset --hard
git checkout x
npm uninstall x
docker rm x
systemctl stop x
"""
_NEITHER = """
mkdir x
tee x
find . -exec ./x.sh {} ;
pytest
npm test
npm
docker run x
git commit -m x
git checkout -b x
"""


@pytest.mark.parametrize(
    ("facets", "commands"),
    [
        (("read-only",), _READS),
        (("network",), _NETWORKS),
        (("destructive",), _DESTROYS),
        ((), _NEITHER),
    ],
)
def test_what_a_command_could_do_follows_from_its_names(
    facets: tuple[str, ...], commands: str
) -> None:
    lines = [Simple(line, tuple(line.split())) for line in commands.strip().split("\n")]
    assert [harm(line) for line in lines] == [facets] * len(lines)


def test_programs_that_everybody_knows_are_no_misspelt_scripts() -> None:
    assert [is_familiar(name) for name in ("git", "mkdir", "nl", "notes")] == [
        True,
        True,
        True,
        False,
    ]

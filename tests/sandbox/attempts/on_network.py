"""Ways out over a socket."""

import socket

from base import BAIT, attempt, connect


@attempt
def connect_to_the_host_over_ipv4():
    connect(socket.AF_INET, ("127.0.0.1", BAIT["port"]))


@attempt
def connect_to_the_host_over_ipv6():
    connect(socket.AF_INET6, ("::1", BAIT["port6"]))


@attempt
def send_udp_to_the_host():
    connect(socket.AF_INET, ("127.0.0.1", BAIT["udp"]), socket.SOCK_DGRAM)


@attempt
def connect_to_the_internet():
    connect(socket.AF_INET, ("1.1.1.1", 53))


@attempt
def resolve_a_name():
    socket.getaddrinfo("example.com", 80)


@attempt
def connect_to_an_abstract_socket():
    connect(socket.AF_UNIX, "\0" + BAIT["abstract"])


@attempt
def connect_to_a_socket_by_path():
    connect(socket.AF_UNIX, BAIT["socket"])


@attempt
def connect_to_the_container_engine():
    connect(socket.AF_UNIX, "/var/run/docker.sock")


@attempt
def connect_to_the_hypervisor():
    connect(40, (2, 1024))


@attempt
def open_a_netlink_socket():
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)


@attempt
def open_a_packet_socket():
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)


@attempt
def open_a_raw_socket():
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)

! Known calls for the recorder, by `use mpi_f08` where F08 is defined, else by `use mpi`. Three ranks.
program recorded_calls
#ifdef F08
  use mpi_f08
#define COMM type(mpi_comm)
#define REQUEST type(mpi_request)
#else
  use mpi
#define COMM integer
#define REQUEST integer
#endif
  implicit none
  integer :: rank, i, ierr
  double precision :: one(4), other(4), many(12), others(12)
  COMM :: world, part
  REQUEST :: requests(2)

  call mpi_init(ierr)
  world = mpi_comm_world
  call mpi_comm_rank(world, rank, ierr)
  one = 1
  many = 1
  do i = 1, 3000
    call mpi_allreduce(one, other, 4, mpi_double_precision, mpi_sum, world, ierr)
    if (mod(i, 100) == 0) call mpi_allreduce(one, other, 1, mpi_double_precision, mpi_sum, world, ierr)
    if (any(other /= 3)) error stop 'allreduce'
  end do
  do i = 1, 7
    call mpi_barrier(world, ierr)
  end do
  do i = 0, 8
    call mpi_bcast(one, 4, mpi_double_precision, mod(i, 3), world, ierr)
    call mpi_reduce(one, other, 4, mpi_double_precision, mpi_max, mod(i, 3), world, ierr)
  end do
  do i = 1, 5
    call mpi_alltoall(many, 4, mpi_double_precision, others, 4, mpi_double_precision, world, ierr)
    call mpi_gather(one, 4, mpi_double_precision, many, 4, mpi_double_precision, 0, world, ierr)
    call mpi_allgatherv(one, 4, mpi_double_precision, many, [4, 4, 4], [0, 4, 8], mpi_double_precision, &
                        world, ierr)
  end do
  do i = 1, 6
    call mpi_iallreduce(one, other, 4, mpi_double_precision, mpi_sum, world, requests(1), ierr)
    call mpi_ibarrier(world, requests(2), ierr)
    call mpi_waitall(2, requests, mpi_statuses_ignore, ierr)
  end do
  call mpi_comm_split(world, mod(rank, 2), rank, part, ierr)  ! of two ranks, and of one
  do i = 1, 400
    call mpi_allreduce(one, other, 4, mpi_double_precision, mpi_sum, part, ierr)
  end do
  if (any(other /= merge(2, 1, mod(rank, 2) == 0))) error stop 'allreduce of a part'
  call mpi_comm_free(part, ierr)
  call mpi_finalize(ierr)
end program
